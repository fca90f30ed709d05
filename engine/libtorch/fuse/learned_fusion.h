// Fusion modules with weights: concatenation and projection, a gate, a small transformer over the parts. Made by
// fuse/fusion_module.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/fuse/fusion_module.h"

namespace tributary {

// From a folder with config.json (fuse/fusion_config.h) and model.safetensors, whose tensors are named and shaped as a
// PyTorch module of these members saves them. In fp32. t and i are the parts [D], m their mask; Linear is x W^T + b;
// GELU by the error function. D comes in and D comes out.
//
// concat_projection:
//   absent [2, D]: stands for a part that is not there
//   x = [t or absent[0], i or absent[1]], [2D]
//   hidden_size H:    out = down(GELU(up(x)));  up Linear(2D, H), down Linear(H, D)
//   hidden_size null: out = projection(x);      projection Linear(2D, D)
//   layer_norm: out = norm(out);                norm LayerNorm(D)
// gated:
//   g = sigmoid(gate([t, i])), [D]; gate Linear(2D, D)
//   out = g t + (1 - g) i; where a part is not there, the other one as it is
// cross_attention:
//   class_token [1, D], part_embedding [2, D]
//   x = [class_token, t + part_embedding[0], i + part_embedding[1]], 3 tokens, of which one that is not there is no key
//   encoder: torch.nn.TransformerEncoder of num_hidden_layers pre-norm TransformerEncoderLayers (self_attn, linear1,
//     GELU, linear2, norm1, norm2; linear1 is D * mlp_ratio wide) and a last norm
//   out = projection(encoder(x)[0]); projection Linear(D, D)
//   Source of the layer: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; pre-norm: Xiong et al. 2020,
//   https://arxiv.org/abs/2002.04745
//
// `dimension`: D of the encoders. Errors: NOT_FOUND / INVALID_ARGUMENT naming file and key or tensor: another D, a
// tensor that is missing, has another shape or is none of the module's. LibTorch's exceptions: the caller guards.
absl::StatusOr<LoadedFusionModule> LoadLearnedFusion(const std::string& folder, std::string_view kind,
                                                     int64_t dimension, const ProgramDevice& device);

}  // namespace tributary
