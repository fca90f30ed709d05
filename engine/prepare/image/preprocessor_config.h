// Reads what an image encoder of a hub folder wants to see.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/prepare/image/image_preprocessing.h"

namespace tributary {

// The object image_processor of processor_config.json, else preprocessor_config.json. Processors: CLIP, Siglip, ViT,
// Bit (DINOv2), DeiT, ConvNext (ResNet too) and EfficientNet, named as image processor, "Fast" or not, or as feature
// extractor; where the file does not name one, model_type of config.json does. Keys that are absent or null have the
// processor's defaults. Keys that change nothing here (a batch's format, a processor_class) are passed over.
// Meant is the processor on Pillow; the one on torchvision ("Fast") differs by a level here and there, more with
// filters that torchvision does not have (nearest at Pillow's centres, lanczos, box, hamming). Errors: NOT_FOUND
// neither file says anything; INVALID_ARGUMENT naming file and key: a processor or a way to resize that is not served
// (longest_edge, NaFlex), no fixed output size, a value out of range. Source: transformers 5.24,
// models/*/image_processing_pil_*.py and image_processing_backends.py.
absl::StatusOr<ImagePreprocessing> ReadPreprocessorConfig(const std::string& folder);

}  // namespace tributary
