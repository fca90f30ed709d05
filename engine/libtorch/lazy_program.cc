#include "engine/libtorch/lazy_program.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/heap.h"

namespace tributary {

absl::StatusOr<const BatchProgram*> LazyProgram::Loaded() const {
  MutexLock lock(mutex_);
  if (load_) {
    status_ = absl::InternalError("the program could not be loaded on demand");  // unless the next line comes back
    const MappedBlocks mapped;
    auto program = std::exchange(load_, nullptr)();
    status_ = program.status();
    if (program.ok()) program_ = *std::move(program);
    if (program_ && (program_->OutputDimension() != dimension_ || program_->MaxInputBytes() > max_input_bytes_)) {
      status_ = absl::InternalError(absl::StrCat("the program loaded on demand gives ", program_->OutputDimension(),
                                                 " numbers and wants slots of ", program_->MaxInputBytes(),
                                                 " bytes; promised were ", dimension_, " and ", max_input_bytes_));
      program_.reset();
    }
  }
  if (!status_.ok()) return status_;
  return program_.get();
}

absl::StatusOr<StagedBatch> LazyProgram::Stage(const Batch& batch, std::span<std::byte> input) const {
  auto program = Loaded();
  if (!program.ok()) return program.status();
  return (*program)->Stage(batch, input);
}

absl::Status LazyProgram::Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const {
  auto program = Loaded();
  if (!program.ok()) return program.status();
  return (*program)->Run(staged, input, output);
}

}  // namespace tributary
