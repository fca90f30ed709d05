// What the config.json of the text encoder families say in common. Torch-free; used by encode/families.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/libtorch/weights/json_file.h"

namespace tributary {

struct EncoderConfig {
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // divides heads
  int64_t head_size = 0;
  int64_t intermediate_size = 0;
  int64_t vocabulary_size = 0;
  int64_t max_positions = 0;
  double norm_epsilon = 0;
  std::string activation;

  int64_t query_width() const { return heads * head_size; }
  int64_t qkv_width() const { return (heads + 2 * key_value_heads) * head_size; }
};

// Under which names; those of BERT by default. key_value_heads and head_size: nullptr where the family has no such key.
struct EncoderConfigKeys {
  const char* hidden_size = "hidden_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* key_value_heads = nullptr;
  const char* head_size = nullptr;
  const char* intermediate_size = "intermediate_size";
  const char* vocabulary_size = "vocab_size";
  const char* max_positions = "max_position_embeddings";
  const char* norm_epsilon = "layer_norm_eps";
  double default_norm_epsilon = 1e-12;
  const char* activation = "hidden_act";
  const char* default_activation = "gelu";
};

// Errors are noted in the file. Refuses what would change the numbers of any family and none of ours does: decoders,
// quantised weights, pruned heads, soft caps.
EncoderConfig ReadEncoderConfig(JsonFile& file, const EncoderConfigKeys& keys = {});

// Refuses a value of `key` other than `allowed`; an absent key is fine.
void AllowText(JsonFile& file, const char* key, std::initializer_list<const char*> allowed);
void AllowFlag(JsonFile& file, const char* key, bool allowed);
// Refuses a key that is there and neither null, false nor 0.
void RefuseKey(JsonFile& file, const char* key);

struct RotaryConfig {
  double theta = 10000;
  // Above 1: fixed NTK scaling, frequencies of theta * factor, divided by factor^(2 / head size).
  // Source: https://kexue.fm/archives/9706, formula 6.
  double ntk_factor = 1;
};

struct RotaryKeys {
  const char* theta = "rope_theta";  // at top level
  double default_theta = 10000;
  // Inside rope_parameters, the object of one kind of layer; nullptr: rope_parameters itself.
  const char* layer_type = nullptr;
  bool allow_ntk = false;
};

// From rope_parameters, rope_scaling and rope_theta, whichever there is. Refuses scaled kinds and a partial rotation.
RotaryConfig ReadRotaryConfig(JsonFile& file, const EncoderConfig& config, const RotaryKeys& keys);

// layer_types, one a layer, true: sliding_attention, false: full_attention. Absent: `pattern` of the layer's index.
std::vector<bool> ReadSlidingLayers(JsonFile& file, int64_t layers, bool (*pattern)(int64_t layer, int64_t period),
                                    int64_t period);

}  // namespace tributary
