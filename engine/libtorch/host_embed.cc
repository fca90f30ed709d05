#include "engine/libtorch/host_embed.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <variant>

#include "engine/libtorch/device/host_run.h"
#include "engine/schedule/batch.h"

namespace tributary {

uint64_t UnitsOf(const Prepared& prepared) {
  if (const auto* tokens = std::get_if<TokenSequence>(&prepared)) return tokens->ids.size();
  if (const auto* pixels = std::get_if<PixelBlock>(&prepared)) return uint64_t{pixels->width} * pixels->height;
  return 1;
}

absl::StatusOr<std::vector<std::vector<float>>> EmbedOnHost(const BatchProgram& program, const ProgramDevice& device,
                                                            const std::vector<Prepared>& inputs) {
  std::vector<std::byte> slot(program.MaxInputBytes());
  std::vector<std::vector<float>> vectors;
  vectors.reserve(inputs.size());
  Batch batch;
  const auto run = [&]() -> absl::Status {
    auto staged = program.Stage(batch, slot);
    if (!staged.ok()) return staged.status();
    auto rows = RunOnHost(program, device, *staged, slot);
    if (!rows.ok()) return rows.status();
    const size_t dimension = program.OutputDimension();
    for (size_t i = 0; i < batch.items.size(); ++i) {
      const size_t row = staged->row_of_item.empty() ? i : staged->row_of_item[i];
      const auto first = rows->begin() + static_cast<std::ptrdiff_t>(row * dimension);
      vectors.emplace_back(first, first + static_cast<std::ptrdiff_t>(dimension));
    }
    batch = Batch();
    return absl::OkStatus();
  };
  for (const Prepared& input : inputs) {
    const uint64_t units = UnitsOf(input);
    if (!batch.items.empty() &&
        (batch.useful_units + units > program.MaxBatchUnits() || batch.items.size() == program.MaxBatchItems())) {
      if (auto status = run(); !status.ok()) return status;
    }
    auto item = std::make_unique<WorkItem>(nullptr);
    item->units = units;
    item->prepared = input;
    batch.useful_units += units;
    batch.items.push_back(std::move(item));
  }
  if (!batch.items.empty()) {
    if (auto status = run(); !status.ok()) return status;
  }
  return vectors;
}

}  // namespace tributary
