// Weights of one model on disk, by tensor name: one safetensors file or several shards, read by mmap. Used by the
// encoders while they load.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/files/mapped_file.h"
#include "engine/libtorch/weights/safetensors_header.h"

namespace tributary {

// Errors: NOT_FOUND / INVALID_ARGUMENT naming the file and the tensor.
// Thread-safety: immutable.
// Ownership: tensors keep the file mapped; the object may go before them.
class SafetensorsWeights {
 public:
  // A single file.
  static absl::StatusOr<SafetensorsWeights> OpenFile(const std::string& path);
  // model.safetensors of a hub folder, or the shards that model.safetensors.index.json names.
  static absl::StatusOr<SafetensorsWeights> OpenFolder(const std::string& folder);

  bool Has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  std::vector<std::string> Names() const;

  // What stands before `name` in the one tensor whose name is it, or ends in "." and it: "bert.", "model.", "".
  // NOT_FOUND where there is none, INVALID_ARGUMENT where there are several.
  absl::StatusOr<std::string> PrefixOf(std::string_view name) const;

  // The tensor as it lies in the file. Its memory is read-only: convert or copy before changing it in place.
  absl::StatusOr<at::Tensor> Get(std::string_view name) const;
  // The same, and an error unless it has this shape.
  absl::StatusOr<at::Tensor> Get(std::string_view name, const std::vector<int64_t>& shape) const;

  // The same, and an error unless it is of a floating point type.
  absl::StatusOr<at::Tensor> GetFloats(std::string_view name, const std::vector<int64_t>& shape) const;

  // Content hash over all bytes of all files. Reads them: about 10 ms for 90 MB from the page cache.
  std::string Revision() const;

 private:
  struct Place {
    size_t file;
    SafetensorsEntry entry;
  };

  absl::Status AddFile(const std::string& path);
  std::string Files() const;  // for messages

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace tributary
