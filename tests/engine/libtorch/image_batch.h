// Runs an image program the way a lane does: stage, run, rows out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/encode/conse_labels.h"
#include "engine/prepare/image/image_preparer.h"
#include "tests/engine/prepare/image/golden_image.h"

namespace tributary {

// A picture of tests/golden/image as the preparation leaves it.
inline PixelBlock PreparedGolden(const std::string& name) {
  const std::string file = ReadGolden(name);
  ImageInput input;
  input.encoded = file;
  return MakeImagePreparer({}, InputLimits{})->Prepare(input).value();
}

inline Batch ImageBatch(const std::vector<PixelBlock>& images) {
  Batch batch;
  batch.modality = Modality::kImage;
  for (const PixelBlock& image : images) {
    auto item = std::make_unique<WorkItem>(nullptr);
    item->modality = Modality::kImage;
    item->units = uint64_t{image.width} * image.height;
    item->prepared = image;
    batch.useful_units += item->units;
    batch.items.push_back(std::move(item));
  }
  return batch;
}

inline absl::StatusOr<std::vector<std::vector<float>>> RunImages(const BatchProgram& program,
                                                                 const std::vector<PixelBlock>& images) {
  const Batch batch = ImageBatch(images);
  std::vector<std::byte> input(program.MaxInputBytes());
  auto staged = program.Stage(batch, input);
  if (!staged.ok()) return staged.status();
  const size_t dimensions = program.OutputDimension();
  std::vector<float> rows(staged->batch_size * dimensions);
  if (auto status = program.Run(*staged, input.data(), reinterpret_cast<std::byte*>(rows.data())); !status.ok()) {
    return status;
  }
  std::vector<std::vector<float>> vectors;
  for (size_t i = 0; i < images.size(); ++i) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(i * dimensions);
    vectors.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(dimensions));
  }
  return vectors;
}

// The stand-in for label vectors that generate_image.py makes too; exact in float32. Not normalised.
inline LabelVectors StandInLabels() {
  LabelVectors labels{.values = {}, .classes = 1000, .dimension = 384};
  for (int64_t i = 0; i < 1000 * 384; ++i) {
    labels.values.push_back(static_cast<float>(static_cast<double>(i * 7919 % 10007) / 8192.0 - 0.5));
  }
  return labels;
}

}  // namespace tributary
