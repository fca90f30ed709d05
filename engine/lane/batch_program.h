// One encoder (or fusion module) as a lane sees it: pack a batch into a staging slot, run it on the device, rows out.
// Implemented by engine/libtorch/encode and engine/libtorch/fuse; torch-free fakes live in tests/support.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/schedule/batch.h"

namespace tributary {

// What Stage put into the slot and Run needs to know on the host.
struct StagedBatch {
  size_t batch_size = 0;
  size_t input_bytes = 0;             // used part of the input slot; copied in
  uint64_t computed_units = 0;        // what the arithmetic will run over, padding included
  std::vector<uint32_t> lengths;      // per row, in row order (tokens); empty where all rows have one shape
  std::vector<uint32_t> row_of_item;  // item i of the batch -> its output row; empty: row i
};

// Output of Run: f32 [batch_size, OutputDimension()], row-major, from the start of the output memory, not normalised.
// Thread-safety: const methods from all lanes of the device at once; Stage on lane threads, Run on stream threads.
// Errors: Stage and Run fail the whole batch; what concerns one input is the preparation's matter.
class BatchProgram {
 public:
  virtual ~BatchProgram() = default;
  virtual uint32_t OutputDimension() const = 0;
  // The largest batch the program takes. The scheduler keeps to it; slots are sized for it.
  virtual uint64_t MaxBatchUnits() const = 0;
  virtual size_t MaxBatchItems() const = 0;
  // Upper bound of StagedBatch::input_bytes for a batch within those limits, or for one item of the largest size.
  virtual size_t MaxInputBytes() const = 0;
  virtual absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const = 0;
  virtual absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const = 0;
};

}  // namespace tributary
