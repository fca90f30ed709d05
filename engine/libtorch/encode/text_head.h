// What a text model does after its encoder: pooling, and the linear layers over the pooled vector.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/encode/pooling.h"
#include "engine/libtorch/weights/content_hash.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

// Computed in fp32: it is little work, and the last of the numbers.
// Thread-safety: const methods from any thread. Errors of Forward: LibTorch's exceptions; the program guards.
class TextHead {
 public:
  // hidden_size: of the encoder. Errors: INVALID_ARGUMENT / NOT_FOUND where sizes or tensors do not fit.
  static absl::StatusOr<TextHead> Load(const TextModelFolder& folder, int64_t hidden_size, const ProgramDevice& device);

  // That of a model which brings its own: the state of the end token, or of the last one, then a linear layer: weight
  // [dimensions, hidden_size], bias undefined where there is none; both undefined: the state as it is.
  static TextHead Of(const std::optional<EndToken>& end, const at::Tensor& weight, const at::Tensor& bias,
                     int64_t hidden_size, const ProgramDevice& device);

  // hidden [T, hidden_size]; ids, positions int32 [T] -> f32 [B, dimensions()], not normalised.
  at::Tensor Forward(const at::Tensor& hidden, const at::Tensor& ids, const at::Tensor& positions,
                     const PackedSequences& sequences) const;

  int64_t dimensions() const { return dimensions_; }
  uint64_t parameter_count() const { return parameter_count_; }
  // Of the linear layers' weights; empty where there are none.
  const std::string& revision() const { return revision_; }

 private:
  struct Dense {
    at::Tensor weight;
    at::Tensor bias;  // undefined: none
    DenseModule::Activation activation;
  };

  std::vector<Pooling> poolings_;
  std::optional<EndToken> end_;  // in place of poolings_
  std::vector<Dense> dense_;
  int64_t dimensions_ = 0;
  uint64_t parameter_count_ = 0;
  std::string revision_;
};

}  // namespace tributary
