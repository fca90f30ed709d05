// Runs a text program the way a lane does: stage, run, rows back to items.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"

namespace tributary {

using TokenIds = std::vector<int32_t>;

inline Batch TextBatch(const std::vector<TokenIds>& texts) {
  Batch batch;
  for (const TokenIds& ids : texts) {
    auto item = std::make_unique<WorkItem>(nullptr);
    item->units = ids.size();
    item->prepared = TokenSequence{.ids = ids};
    batch.useful_units += ids.size();
    batch.items.push_back(std::move(item));
  }
  return batch;
}

struct TextRun {
  std::vector<std::vector<float>> vectors;  // in the texts' order
  uint64_t computed_units = 0;
};

inline absl::StatusOr<TextRun> RunTexts(const BatchProgram& program, const std::vector<TokenIds>& texts) {
  const Batch batch = TextBatch(texts);
  std::vector<std::byte> input(program.MaxInputBytes());
  auto staged = program.Stage(batch, input);
  if (!staged.ok()) return staged.status();
  const size_t dimensions = program.OutputDimension();
  std::vector<float> rows(staged->batch_size * dimensions);
  if (auto status = program.Run(*staged, input.data(), reinterpret_cast<std::byte*>(rows.data())); !status.ok()) {
    return status;
  }
  TextRun run{.vectors = {}, .computed_units = staged->computed_units};
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t row = staged->row_of_item.empty() ? i : staged->row_of_item[i];
    run.vectors.emplace_back(rows.begin() + row * dimensions, rows.begin() + (row + 1) * dimensions);
  }
  return run;
}

inline double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace tributary
