#include "engine/libtorch/encode/bert.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/layer_norm.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"

namespace tributary {
namespace {

// Reads tensors and keeps the first error, so that a layer can be put together in one expression and checked once.
class TensorReader {
 public:
  TensorReader(const SafetensorsWeights& weights, std::string prefix) : weights_(weights), prefix_(std::move(prefix)) {}

  // As f32; an undefined tensor after an error.
  at::Tensor Read(const std::string& name, const std::vector<int64_t>& shape) {
    auto tensor = weights_.Get(prefix_ + name, shape);
    if (tensor.ok() && !tensor->is_floating_point()) {
      tensor = absl::InvalidArgumentError(absl::StrCat("tensor '", prefix_, name, "' is not of a floating point type"));
    }
    if (tensor.ok()) {
      parameter_count_ += static_cast<uint64_t>(tensor->numel());
      return tensor->to(at::kFloat);
    }
    if (status_.ok()) status_ = tensor.status();
    return {};
  }
  const absl::Status& status() const { return status_; }
  uint64_t parameter_count() const { return parameter_count_; }

 private:
  const SafetensorsWeights& weights_;
  const std::string prefix_;
  absl::Status status_;
  uint64_t parameter_count_ = 0;
};

}  // namespace

at::Tensor LayerNorm::Forward(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, gain, bias, epsilon);
}

absl::StatusOr<BertEncoder> BertEncoder::Load(const BertConfig& config, const SafetensorsWeights& weights,
                                              ComputeType type, const ProgramDevice& device) {
  const auto activation = ActivationOf(config.hidden_act);
  if (!activation) {
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: hidden_act must be gelu, gelu_new, gelu_pytorch_tanh or relu, is '", config.hidden_act, "'"));
  }
  const std::string prefix = weights.Has("bert.embeddings.word_embeddings.weight") ? "bert." : "";
  TensorReader reader(weights, prefix);
  const auto place = TorchDevice(device);
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  // On CUDA the kernel wants gain and bias in the input's type; it still computes in fp32.
  const at::ScalarType norm_type = device.kind == DeviceKind::kCuda ? TorchType(type) : at::kFloat;

  const auto norm = [&](const std::string& name, at::ScalarType as) {
    const at::Tensor gain = reader.Read(name + ".weight", {hidden});
    const at::Tensor bias = reader.Read(name + ".bias", {hidden});
    if (!reader.status().ok()) return LayerNorm{};
    return LayerNorm{gain.to(place, as, false, true), bias.to(place, as, false, true), config.layer_norm_eps};
  };

  BertEncoder encoder;
  encoder.type_ = TorchType(type);
  encoder.heads_ = config.heads;
  encoder.activation_ = *activation;
  encoder.words_ = reader.Read("embeddings.word_embeddings.weight", {config.vocabulary_size, hidden});
  encoder.positions_ = reader.Read("embeddings.position_embeddings.weight", {config.max_positions, hidden});
  const at::Tensor token_types = reader.Read("embeddings.token_type_embeddings.weight", {config.token_types, hidden});
  encoder.embedding_norm_ = norm("embeddings.LayerNorm", at::kFloat);
  if (!reader.status().ok()) return reader.status();
  // On CPU the word table stays in the mapped file: only the rows that are used are ever read.
  encoder.words_ = encoder.words_.to(place);
  encoder.positions_ = encoder.positions_.add(token_types.select(0, 0)).to(place);
  const uint64_t embedding_parameters = reader.parameter_count();

  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("encoder.layer.", i, ".");
    const auto weight = [&](const std::string& name, int64_t out, int64_t in) {
      return reader.Read(layer + name + ".weight", {out, in});
    };
    const auto bias = [&](const std::string& name, int64_t out) { return reader.Read(layer + name + ".bias", {out}); };

    const at::Tensor query = weight("attention.self.query", hidden, hidden);
    const at::Tensor key = weight("attention.self.key", hidden, hidden);
    const at::Tensor value = weight("attention.self.value", hidden, hidden);
    const at::Tensor query_bias = bias("attention.self.query", hidden);
    const at::Tensor key_bias = bias("attention.self.key", hidden);
    const at::Tensor value_bias = bias("attention.self.value", hidden);
    const at::Tensor mix = weight("attention.output.dense", hidden, hidden);
    const at::Tensor mix_bias = bias("attention.output.dense", hidden);
    const at::Tensor up = weight("intermediate.dense", inner, hidden);
    const at::Tensor up_bias = bias("intermediate.dense", inner);
    const at::Tensor down = weight("output.dense", hidden, inner);
    const at::Tensor down_bias = bias("output.dense", hidden);
    LayerNorm attention_norm = norm(layer + "attention.output.LayerNorm", norm_type);
    LayerNorm output_norm = norm(layer + "output.LayerNorm", norm_type);
    if (!reader.status().ok()) return reader.status();

    encoder.layers_.push_back(
        Layer{.qkv = Linear(at::cat({query, key, value}), at::cat({query_bias, key_bias, value_bias}), type, device),
              .attention_output = Linear(mix, mix_bias, type, device),
              .attention_norm = std::move(attention_norm),
              .intermediate = Linear(up, up_bias, type, device),
              .output = Linear(down, down_bias, type, device),
              .output_norm = std::move(output_norm)});
  }
  encoder.parameter_count_ = reader.parameter_count();
  encoder.parameter_bytes_ = embedding_parameters * sizeof(float) +
                             (encoder.parameter_count_ - embedding_parameters) * c10::elementSize(encoder.type_);
  return encoder;
}

at::Tensor BertEncoder::Forward(const at::Tensor& ids, const at::Tensor& positions,
                                const PackedSequences& sequences) const {
  at::Tensor hidden = at::index_select(words_, 0, ids);
  hidden.add_(at::index_select(positions_, 0, positions));
  hidden = embedding_norm_.Forward(hidden).to(type_);
  for (const Layer& layer : layers_) {
    const at::Tensor context = PackedAttention(layer.qkv.Forward(hidden), sequences, heads_);
    hidden = layer.attention_norm.Forward(layer.attention_output.ForwardAdd(context, hidden));
    const at::Tensor inner = layer.intermediate.Forward(hidden, activation_);
    hidden = layer.output_norm.Forward(layer.output.ForwardAdd(inner, hidden));
  }
  return hidden;
}

}  // namespace tributary
