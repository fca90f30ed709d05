#include "engine/libtorch/weights/encoder_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/files/json_text.h"

namespace tributary {
namespace {

// Sizes beyond any model; products of them stay far within int64.
constexpr int64_t kMaxSize = int64_t{1} << 24;

const nlohmann::json* Object(const nlohmann::json& parent, const char* key) {
  const auto found = parent.find(key);
  return found != parent.end() && found->is_object() ? &*found : nullptr;
}

double NumberIn(JsonFile& file, const nlohmann::json& object, const char* key, double fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (found->is_number() && found->get<double>() > 0) return found->get<double>();
  file.Fail(absl::StrCat(key, " must be a positive number, is ", Shown(*found)));
  return fallback;
}

std::string TextIn(JsonFile& file, const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  file.Fail(absl::StrCat(key, " must be a string, is ", Shown(*found)));
  return "";
}

}  // namespace

EncoderConfig ReadEncoderConfig(JsonFile& file, const EncoderConfigKeys& keys) {
  EncoderConfig config;
  config.hidden_size = file.Count(keys.hidden_size, kMaxSize);
  config.layers = file.Count(keys.layers, 1024);
  config.heads = file.Count(keys.heads, kMaxSize);
  config.intermediate_size = file.Count(keys.intermediate_size, kMaxSize);
  config.vocabulary_size = file.Count(keys.vocabulary_size, kMaxSize);
  config.max_positions = file.Count(keys.max_positions, kMaxSize);
  config.norm_epsilon = keys.norm_epsilon == nullptr ? keys.default_norm_epsilon
                                                     : file.Number(keys.norm_epsilon, keys.default_norm_epsilon);
  if (!(config.norm_epsilon >= 0)) {
    file.Fail(absl::StrCat(keys.norm_epsilon, " must not be below 0, is ", config.norm_epsilon));
  }
  config.activation = file.Text(keys.activation, keys.default_activation);
  config.key_value_heads =
      keys.key_value_heads == nullptr ? config.heads : file.Count(keys.key_value_heads, kMaxSize, config.heads);
  if (config.heads % config.key_value_heads != 0) {
    file.Fail(absl::StrCat(keys.key_value_heads, " ", config.key_value_heads, " does not divide ", keys.heads, " ",
                           config.heads));
  }
  if (keys.head_size != nullptr && file.Has(keys.head_size)) {
    config.head_size = file.Count(keys.head_size, kMaxSize);
  } else if (config.hidden_size % config.heads == 0) {
    config.head_size = config.hidden_size / config.heads;
  } else {
    file.Fail(
        absl::StrCat(keys.heads, " ", config.heads, " does not divide ", keys.hidden_size, " ", config.hidden_size));
  }
  AllowFlag(file, "is_decoder", false);
  AllowFlag(file, "add_cross_attention", false);
  for (const char* key : {"quantization_config", "pruned_heads", "attn_logit_softcapping"}) RefuseKey(file, key);
  return config;
}

void AllowText(JsonFile& file, const char* key, std::initializer_list<const char*> allowed) {
  if (!file.Has(key)) return;
  const std::string value = file.Text(key, "");
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  file.Fail(absl::StrCat(key, " must be ", absl::StrJoin(allowed, " or "), ", is '", value, "'"));
}

void AllowFlag(JsonFile& file, const char* key, bool allowed) {
  if (file.Flag(key, allowed) != allowed) file.Fail(absl::StrCat(key, " must be ", allowed ? "true" : "false"));
}

void RefuseKey(JsonFile& file, const char* key) {
  if (!file.Has(key)) return;
  const nlohmann::json& value = file.root()[key];
  if (value == false || value == 0 || ((value.is_object() || value.is_array()) && value.empty())) return;
  file.Fail(absl::StrCat(key, " is not supported, is ", Shown(value)));
}

RotaryConfig ReadRotaryConfig(JsonFile& file, const EncoderConfig& config, const RotaryKeys& keys) {
  RotaryConfig rotary{.theta = file.Number(keys.theta, keys.default_theta), .ntk_factor = 1};
  if (!(rotary.theta > 0)) file.Fail(absl::StrCat(keys.theta, " must be a positive number"));
  if (config.head_size % 2 != 0) file.Fail(absl::StrCat("heads of ", config.head_size, " numbers cannot be rotated"));
  if (file.Number("partial_rotary_factor", 1) != 1) file.Fail("partial_rotary_factor must be 1");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!file.Has(key)) continue;
    const nlohmann::json* rope = Object(file.root(), key);
    if (rope == nullptr) {
      file.Fail(absl::StrCat(key, " must be an object"));
      continue;
    }
    // One object for each kind of layer; the older rope_scaling has one for all.
    if (keys.layer_type != nullptr) {
      const nlohmann::json* const nested = Object(*rope, keys.layer_type);
      if (nested == nullptr && rope->contains("rope_theta")) {
        file.Fail(absl::StrCat(key, ": no object ", keys.layer_type));
      }
      if (nested != nullptr) rope = nested;
    }
    rotary.theta = NumberIn(file, *rope, "rope_theta", rotary.theta);
    if (NumberIn(file, *rope, "partial_rotary_factor", 1) != 1) file.Fail("partial_rotary_factor must be 1");
    std::string type = TextIn(file, *rope, "rope_type");
    if (type.empty()) type = TextIn(file, *rope, "type");
    if (type == "ntk" && keys.allow_ntk) {
      rotary.ntk_factor = NumberIn(file, *rope, "factor", 1);
      if (rope->contains("mixed_b") && !(*rope)["mixed_b"].is_null()) {
        file.Fail(absl::StrCat(key, ": mixed_b must be null"));
      }
    } else if (!type.empty() && type != "default") {
      file.Fail(absl::StrCat(key, ": type '", type, "' is not supported"));
    }
  }
  return rotary;
}

std::vector<bool> ReadSlidingLayers(JsonFile& file, int64_t layers, bool (*pattern)(int64_t layer, int64_t period),
                                    int64_t period) {
  std::vector<bool> sliding(static_cast<size_t>(layers));
  if (!file.Has("layer_types")) {
    for (int64_t i = 0; i < layers; ++i) sliding[static_cast<size_t>(i)] = pattern(i, period);
    return sliding;
  }
  const nlohmann::json& types = file.root()["layer_types"];
  if (!types.is_array() || types.size() != sliding.size()) {
    file.Fail(absl::StrCat("layer_types must be an array of ", layers, " names"));
    return sliding;
  }
  for (size_t i = 0; i < sliding.size(); ++i) {
    sliding[i] = types[i] == "sliding_attention";
    if (!sliding[i] && types[i] != "full_attention") {
      file.Fail(absl::StrCat("layer_types: ", Shown(types[i]), " is not full_attention or sliding_attention"));
    }
  }
  return sliding;
}

}  // namespace tributary
