// Golden pictures, and a batch of images as the scheduler forms it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/libtorch/encode/conse_labels.h"
#include "engine/prepare/image/image_preparer.h"
#include "tests/engine/libtorch/run_batch.h"
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

// The stand-in for label vectors that generate_image.py makes too; exact in float32. Not normalised.
inline LabelVectors StandInLabels() {
  LabelVectors labels{.values = {}, .classes = 1000, .dimension = 384};
  for (int64_t i = 0; i < 1000 * 384; ++i) {
    labels.values.push_back(static_cast<float>(static_cast<double>(i * 7919 % 10007) / 8192.0 - 0.5));
  }
  return labels;
}

}  // namespace tributary
