// The text side of models that place texts and images in one space: pre-norm layers over words and learned positions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/libtorch/encode/families/families.h"
#include "engine/libtorch/encode/image_families/vision_config.h"
#include "engine/libtorch/encode/module_reader.h"
#include "engine/libtorch/encode/pre_norm_encoder.h"
#include "engine/libtorch/weights/encoder_config.h"
#include "engine/libtorch/weights/json_file.h"

namespace tributary {

// What the reference's configuration class gives a key that is absent: the hub's files leave such keys out.
struct TextTowerDefaults {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t heads = 0;
  int64_t vocabulary_size = 0;
  int64_t positions = 0;
  double norm_epsilon = 0;
  const char* activation = "";
};

struct TextTowerConfig {
  EncoderConfig encoder;
  FeedForwardActivation activation;
};

// A tensor that every text tower has, by which its prefix is found.
inline constexpr const char* kTextTowerProbe = "embeddings.token_embedding.weight";

// text_config of a model of two towers (`both` its model_type), else the file itself.
absl::StatusOr<JsonFile> TextTowerFile(const JsonFile& file, const char* both);

// Errors are noted in the file.
TextTowerConfig ReadTextTowerConfig(JsonFile& file, const TextTowerDefaults& defaults);

// Everything but the head. causal: a token sees those before it only.
PreNormParts ReadTextTower(ModuleReader& reader, const TextTowerConfig& config, bool causal, const FamilyInput& input);

}  // namespace tributary
