// Runs a batch through a program the way a lane does: stage, run, rows back to items; brings the cosine tests compare
// by.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/vector_compare.h"

namespace tributary {

struct BatchRun {
  std::vector<std::vector<float>> vectors;  // in the items' order
  uint64_t computed_units = 0;
};

inline absl::StatusOr<BatchRun> RunBatch(const BatchProgram& program, const Batch& batch) {
  // What an earlier batch may have left in the slot; NaN as float.
  std::vector<std::byte> input(program.MaxInputBytes(), std::byte{0xFF});
  auto staged = program.Stage(batch, input);
  if (!staged.ok()) return staged.status();
  const size_t dimension = program.OutputDimension();
  std::vector<float> rows(staged->batch_size * dimension);
  if (auto status = program.Run(*staged, input.data(), reinterpret_cast<std::byte*>(rows.data())); !status.ok()) {
    return status;
  }
  BatchRun run{.vectors = {}, .computed_units = staged->computed_units};
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const size_t row = staged->row_of_item.empty() ? i : staged->row_of_item[i];
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(row * dimension);
    run.vectors.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(dimension));
  }
  return run;
}

}  // namespace tributary
