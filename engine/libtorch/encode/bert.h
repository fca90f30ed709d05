// The BERT encoder (post layer norm) over packed sequences. Run by encode/text_program.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/weights/hub_folder.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {

// Gain and bias of a layer norm over the last dimension, computed in fp32 whatever the input's type.
struct LayerNorm {
  at::Tensor gain;
  at::Tensor bias;
  double epsilon = 1e-12;

  at::Tensor Forward(const at::Tensor& x) const;
};

// Shapes: ids, positions int32 [T]; result [T, hidden_size] in the compute type. Rows of no sequence are computed and
// mean
//   nothing; no other row depends on them.
// Thread-safety: Forward from any thread. Errors of Forward: LibTorch's exceptions; the program guards.
// Source: Devlin et al. 2018, https://arxiv.org/abs/1810.04805; tensor names of transformers' BertModel, with or
// without
//   the prefix "bert.".
class BertEncoder {
 public:
  // INVALID_ARGUMENT / NOT_FOUND naming the key, or file and tensor.
  static absl::StatusOr<BertEncoder> Load(const BertConfig& config, const SafetensorsWeights& weights, ComputeType type,
                                          const ProgramDevice& device);

  at::Tensor Forward(const at::Tensor& ids, const at::Tensor& positions, const PackedSequences& sequences) const;

  uint64_t parameter_count() const { return parameter_count_; }
  uint64_t parameter_bytes() const { return parameter_bytes_; }

 private:
  struct Layer {
    Linear qkv;  // query, key and value as one product
    Linear attention_output;
    LayerNorm attention_norm;
    Linear intermediate;
    Linear output;
    LayerNorm output_norm;
  };

  BertEncoder() = default;

  at::ScalarType type_ = at::kFloat;
  int64_t heads_ = 0;
  Activation activation_ = Activation::kGelu;
  at::Tensor words_;      // f32 [vocab, H]
  at::Tensor positions_;  // f32 [max_positions, H], token type 0 added in
  LayerNorm embedding_norm_;
  std::vector<Layer> layers_;
  uint64_t parameter_count_ = 0;
  uint64_t parameter_bytes_ = 0;
};

}  // namespace tributary
