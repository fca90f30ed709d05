// The config.json of a learned fusion module's folder. Torch-free; used by fuse/learned_fusion.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tributary {

// concat_projection: dimension, hidden_size (null: one layer), layer_norm, layer_norm_eps.
// gated: dimension.
// cross_attention: dimension, num_hidden_layers, num_attention_heads, mlp_ratio, layer_norm_eps.
struct FusionConfig {
  int64_t dimension = 0;    // D, of the parts and of the fused vector
  int64_t hidden_size = 0;  // concat_projection: H, 0: one layer; cross_attention: D * mlp_ratio
  bool layer_norm = false;
  double norm_epsilon = 1e-5;
  int64_t layers = 0;
  int64_t heads = 0;  // divides D
};

// `kind`: a learned one; the file's own "fusion" must say the same. A key that is none of the kind's is refused: it
// would mean something that is not done.
// Errors: NOT_FOUND / INVALID_ARGUMENT naming the file and the key.
absl::StatusOr<FusionConfig> ReadFusionConfig(const std::string& folder, std::string_view kind);

}  // namespace tributary
