// BERT's tensors: RoBERTa and XLM-RoBERTa have them under the same names, DistilBERT and MPNet under others.
#pragma once

#include <cstdint>

#include "engine/libtorch/encode/families/families.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/encode/module_reader.h"
#include "engine/libtorch/encode/post_norm_encoder.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {

// Of the tensors of one layer, below `layers` and the layer's number.
struct BertLayerNames {
  const char* layers = "encoder.layer.";
  const char* query = "attention.self.query";
  const char* key = "attention.self.key";
  const char* value = "attention.self.value";
  const char* attention_output = "attention.output.dense";
  const char* attention_norm = "attention.output.LayerNorm";
  const char* up = "intermediate.dense";
  const char* down = "output.dense";
  const char* output_norm = "output.LayerNorm";
};

// token_types: 0 or the rows of their table. Errors are in the reader.
PostNormParts ReadBertParts(ModuleReader& reader, const EncoderConfig& config, Activation activation,
                            int64_t token_types, const FamilyInput& input, const BertLayerNames& names = {});

}  // namespace tributary
