// A file mapped read-only into memory: what readers of model folders read from.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tributary {

// Invariants: bytes() stays valid and unchanged while the object lives, as long as nobody cuts the file short (the
//   system then raises SIGBUS: replace weight files by rename, never in place).
// Thread-safety: immutable.
class MappedFile {
 public:
  // NOT_FOUND / PERMISSION_DENIED / INVALID_ARGUMENT (not a regular file) naming the path.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(std::string path, const char* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}

  const std::string path_;
  const char* const data_;
  const size_t size_;
};

}  // namespace tributary
