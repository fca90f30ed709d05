// BERT's tensors, which RoBERTa's and XLM-RoBERTa's are named after.
#pragma once

#include <cstdint>

#include "engine/libtorch/encode/families/families.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/encode/module_reader.h"
#include "engine/libtorch/encode/post_norm_encoder.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {

// Errors are in the reader.
PostNormParts ReadBertParts(ModuleReader& reader, const EncoderConfig& config, Activation activation,
                            int64_t token_types, const FamilyInput& input);

}  // namespace tributary
