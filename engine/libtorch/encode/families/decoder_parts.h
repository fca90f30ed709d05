// Qwen3 and Gemma 3 name their tensors alike, as the decoders do that they were made from.
#pragma once

#include <array>
#include <vector>

#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/encode/families/families.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {

struct DecoderStyle {
  Activation activation = Activation::kSilu;
  bool projection_bias = false;  // in the attention
  double embedding_scale = 1;
  double norm_offset = 0;    // added to the norms' weights
  bool norms_after = false;  // a norm of what each half of a layer adds, too
  AttentionOptions whole;
  AttentionOptions window;
  std::vector<bool> sliding;             // by layer: sees a window, not the whole text
  std::array<RotaryConfig, 2> rotaries;  // of whole and sliding layers
};

LoadedFamily LoadDecoder(const EncoderConfig& config, const DecoderStyle& style, const FamilyInput& input);

}  // namespace tributary
