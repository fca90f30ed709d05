// Image encoders that are transformers over patches: the norms before each half of a layer, the sum of all halves left
// as it is until a last norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/encode/image_patches.h"
#include "engine/libtorch/encode/image_pooling.h"
#include "engine/libtorch/encode/norm.h"
#include "engine/libtorch/encode/transformer_layer.h"

namespace tributary {

struct ImageTransformerLayer {
  Norm attention_norm;
  SelfAttention attention;
  Norm feed_forward_norm;
  FeedForward feed_forward;
};

struct ImageTransformerParts {
  at::ScalarType type = at::kFloat;
  PatchEmbedding patches;
  at::Tensor first_tokens;  // f32 [K, H]: class token, registers, with their positions; undefined: none
  at::Tensor positions;     // f32 [patches, H], the patches' offset included
  std::optional<Norm> embedding_norm;
  std::vector<ImageTransformerLayer> layers;
  std::unique_ptr<const ImagePooling> pooling;
};

// Run for CLIP, SigLIP, ViT and DINOv2; made by their files in encode/image_families.
// The sum runs through all layers in fp32, whatever the products' type, as in encode/pre_norm_encoder.
class ImageTransformer final : public ImageEncoder {
 public:
  ImageTransformer(const ImageEncoderInfo& info, ImageClassifier classifier, ImageTransformerParts parts);

  at::Tensor Hidden(const at::Tensor& pixels) const override;
  at::Tensor Pool(const at::Tensor& hidden) const override;

 private:
  const ImageTransformerParts parts_;
};

}  // namespace tributary
