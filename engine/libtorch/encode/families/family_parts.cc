#include "engine/libtorch/encode/families/family_parts.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"

namespace tributary {

Activation ReadActivation(JsonFile& file, const EncoderConfig& config, const char* key) {
  const auto activation = ActivationOf(config.activation);
  if (!activation) {
    file.Fail(
        absl::StrCat(key, " must be gelu, gelu_new, gelu_pytorch_tanh, relu or silu, is '", config.activation, "'"));
  }
  return activation.value_or(Activation::kGelu);
}

AttentionOptions WholeTextAttention(const EncoderConfig& config) {
  return {.heads = config.heads,
          .key_value_heads = config.key_value_heads,
          .head_size = config.head_size,
          .scale = 1 / std::sqrt(static_cast<double>(config.head_size)),
          .bias = {}};
}

TextEncoderInfo InfoOf(const EncoderConfig& config, const ModuleReader& reader) {
  return {.hidden_size = config.hidden_size,
          .vocabulary_size = config.vocabulary_size,
          .max_tokens = config.max_positions,
          .parameter_count = reader.parameter_count(),
          .parameter_bytes = reader.parameter_bytes()};
}

at::Tensor PositionTable(ModuleReader& reader, const EncoderConfig& config, int64_t token_types,
                         const ProgramDevice& device) {
  const at::Tensor positions =
      reader.Values("embeddings.position_embeddings.weight", {config.max_positions, config.hidden_size});
  if (token_types == 0) return reader.status().ok() ? positions.to(TorchDevice(device)) : at::Tensor();
  const at::Tensor types = reader.Values("embeddings.token_type_embeddings.weight", {token_types, config.hidden_size});
  if (!reader.status().ok()) return {};
  return positions.add(types.select(0, 0)).to(TorchDevice(device));
}

at::Tensor TokenTypeRow(ModuleReader& reader, const EncoderConfig& config, int64_t token_types,
                        const ProgramDevice& device) {
  const at::Tensor types = reader.Values("embeddings.token_type_embeddings.weight", {token_types, config.hidden_size});
  if (!reader.status().ok()) return {};
  return types.select(0, 0).to(TorchDevice(device));
}

}  // namespace tributary
