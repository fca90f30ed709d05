// A program that is loaded when its first batch comes: the fp32 copy of an encoder, for the few vectors that a smaller
// type could not hold. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/lane/batch_program.h"

namespace tributary {

// Loads inside the first Stage, on a lane's thread (others wait for it): that batch is late by the time of a load, and
// its shapes are not warm. Loaded once; a failed load is the error of every batch. Kept until the program goes.
// Thread-safety: as BatchProgram.
class LazyProgram final : public BatchProgram {
 public:
  using Load = std::function<absl::StatusOr<std::unique_ptr<BatchProgram>>()>;

  // `like`: the program it stands beside; same limits and dimensions. `load` runs on a thread whose operators must not
  // take a team of threads: it calls InitTorchThread where that matters.
  LazyProgram(const BatchProgram& like, Load load)
      : dimension_(like.OutputDimension()),
        max_units_(like.MaxBatchUnits()),
        max_items_(like.MaxBatchItems()),
        max_input_bytes_(like.MaxInputBytes()),
        load_(std::move(load)) {}

  uint32_t OutputDimension() const override { return dimension_; }
  uint64_t MaxBatchUnits() const override { return max_units_; }
  size_t MaxBatchItems() const override { return max_items_; }
  size_t MaxInputBytes() const override { return max_input_bytes_; }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override;
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override;

 private:
  // The loaded program, or why there is none.
  absl::StatusOr<const BatchProgram*> Loaded() const TRIBUTARY_EXCLUDES(mutex_);

  const uint32_t dimension_;
  const uint64_t max_units_;
  const size_t max_items_;
  const size_t max_input_bytes_;
  mutable Mutex mutex_;
  mutable Load load_ TRIBUTARY_GUARDED_BY(mutex_);  // empty once it ran
  mutable absl::Status status_ TRIBUTARY_GUARDED_BY(mutex_);
  mutable std::unique_ptr<BatchProgram> program_ TRIBUTARY_GUARDED_BY(mutex_);
};

}  // namespace tributary
