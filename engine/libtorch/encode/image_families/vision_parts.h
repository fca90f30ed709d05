// What several image families do in the same way while they load.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/libtorch/encode/image_families/families.h"
#include "engine/libtorch/encode/image_families/vision_config.h"
#include "engine/libtorch/encode/image_transformer.h"
#include "engine/libtorch/encode/module_reader.h"

namespace tributary {

// Each output times its factor, f32 [out].
LinearWeights ScaleOutputs(const LinearWeights& weights, const at::Tensor& factors);

// up and down as they are in the file; output_scale f32 [hidden_size]: a factor of each output;
// undefined: none.
FeedForward MakeFeedForward(const ModuleReader& reader, const LinearWeights& up, const LinearWeights& down,
                            const FeedForwardActivation& activation, const at::Tensor& output_scale = {});

// Every patch sees all others; products are scaled by 1/sqrt(head_size).
AttentionOptions WholeImageAttention(const VisionConfig& config);

// A copy in f32 on the device; undefined stays so.
at::Tensor OnDevice(const at::Tensor& values, const ProgramDevice& device);

// Of CLIP and SigLIP, below encoder.layers.
std::vector<ImageTransformerLayer> ReadClipLayers(ModuleReader& reader, const VisionConfig& config,
                                                  int64_t intermediate_size);

// The attention of ViT's and DINOv2's layers, below `layer`.
SelfAttention ReadVitAttention(ModuleReader& reader, const std::string& layer, const VisionConfig& config,
                               bool qkv_bias, const at::Tensor& output_scale = {});

// How positions are brought from the images they were trained for to those that come.
enum class PositionFit : uint8_t { kSameSize, kBicubic, kBicubicAntialias };

// Patches, class token and registers, with their positions, of ViT and DINOv2. registers: how many.
void ReadVitEmbeddings(ModuleReader& reader, const VisionConfig& config, const ImageFamilyInput& input,
                       int64_t registers, PositionFit fit, ImageTransformerParts& parts);

// The tensors `name`.weight and .bias over vectors of `dimensions`; empty where no classifier is wanted.
ImageClassifier ReadImageClassifier(ModuleReader& reader, const std::string& name, int64_t dimensions,
                                    const ImageFamilyInput& input);
// Notes an error where one is wanted, for families that have none.
void RefuseImageClassifier(ModuleReader& reader, const ImageFamilyInput& input);

// others: f32 tensors that `reader` has not counted.
ImageEncoderInfo ImageInfoOf(const ImageFamilyInput& input, int64_t dimensions, const ModuleReader& reader,
                             const std::vector<at::Tensor>& others);

// The encoder, unless the reader met an error.
template <typename Encoder, typename Parts>
LoadedImageFamily FinishImage(const ImageFamilyInput& input, int64_t dimensions, const ModuleReader& reader,
                              ImageClassifier classifier, Parts parts, const std::vector<at::Tensor>& others = {}) {
  if (!reader.status().ok()) return reader.status();
  std::vector<at::Tensor> uncounted = others;
  uncounted.insert(uncounted.end(), {classifier.weight, classifier.bias});
  return std::make_unique<Encoder>(ImageInfoOf(input, dimensions, reader, uncounted), std::move(classifier),
                                   std::move(parts));
}

}  // namespace tributary
