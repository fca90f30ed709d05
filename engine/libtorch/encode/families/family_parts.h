// What several families do in the same way while they load.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/libtorch/encode/families/families.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/encode/module_reader.h"
#include "engine/libtorch/encode/text_encoder.h"
#include "engine/libtorch/encode/transformer_layer.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {

// config.activation; one that is not ours is noted in the file under `key`.
Activation ReadActivation(JsonFile& file, const EncoderConfig& config, const char* key);

// Every token sees the whole text, products are scaled by 1/sqrt(head_size).
AttentionOptions WholeTextAttention(const EncoderConfig& config);

TextEncoderInfo InfoOf(const EncoderConfig& config, const ModuleReader& reader);

// Position table [max_positions, H] with the row of token type 0 added in. token_types: 0 or the table's rows.
at::Tensor PositionTable(ModuleReader& reader, const EncoderConfig& config, int64_t token_types,
                         const ProgramDevice& device);

// Row 0 of the token type table, f32 on the device.
at::Tensor TokenTypeRow(ModuleReader& reader, const EncoderConfig& config, int64_t token_types,
                        const ProgramDevice& device);

// The encoder, unless the reader met an error.
template <typename Encoder, typename Parts>
LoadedFamily Finish(const EncoderConfig& config, const ModuleReader& reader, Parts parts) {
  if (!reader.status().ok()) return reader.status();
  return std::make_unique<Encoder>(InfoOf(config, reader), std::move(parts));
}

}  // namespace tributary
