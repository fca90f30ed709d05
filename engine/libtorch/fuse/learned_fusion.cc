#include "engine/libtorch/fuse/learned_fusion.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/norm.h"
#include "engine/libtorch/fuse/fusion_config.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {
namespace {

struct Layer {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out]

  at::Tensor Forward(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

// Keeps the first error and reads nothing after it: a loader puts the whole module together, then calls Finish.
class TensorReader {
 public:
  TensorReader(const SafetensorsWeights& weights, const std::string& folder, const ProgramDevice& device)
      : weights_(weights), folder_(folder), device_(device) {}

  at::Tensor Read(const std::string& name, const std::vector<int64_t>& shape) {
    read_.insert(name);
    if (!status_.ok()) return {};
    auto tensor = weights_.Get(name, shape);
    if (tensor.ok() && !tensor->is_floating_point()) {
      tensor =
          absl::InvalidArgumentError(absl::StrCat(folder_, ": tensor '", name, "' is not of a floating point type"));
    }
    if (!tensor.ok()) {
      status_ = tensor.status();
      return {};
    }
    parameter_count_ += static_cast<uint64_t>(tensor->numel());
    return tensor->to(TorchDevice(device_), at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
  }

  Layer ReadLayer(const std::string& name, int64_t out, int64_t in) {
    return {.weight = Read(name + ".weight", {out, in}), .bias = Read(name + ".bias", {out})};
  }

  Norm ReadNorm(const std::string& name, int64_t size, double epsilon) {
    return {.kind = Norm::Kind::kLayer,
            .gain = Read(name + ".weight", {size}),
            .bias = Read(name + ".bias", {size}),
            .epsilon = epsilon};
  }

  absl::Status Finish() const {
    if (!status_.ok()) return status_;
    for (const std::string& name : weights_.Names()) {
      if (!read_.contains(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat(folder_, ": tensor '", name, "' is none of what config.json describes"));
      }
    }
    return absl::OkStatus();
  }
  uint64_t parameter_count() const { return parameter_count_; }

 private:
  const SafetensorsWeights& weights_;
  const std::string folder_;
  const ProgramDevice device_;
  std::set<std::string> read_;
  absl::Status status_;
  uint64_t parameter_count_ = 0;
};

class ConcatProjection final : public FusionModule {
 public:
  ConcatProjection(const FusionConfig& config, TensorReader& reader)
      : dimension_(config.dimension), absent_(reader.Read("absent", {2, dimension_})) {
    const int64_t both = 2 * dimension_;
    if (config.hidden_size > 0) {
      up_ = reader.ReadLayer("up", config.hidden_size, both);
      last_ = reader.ReadLayer("down", dimension_, config.hidden_size);
    } else {
      last_ = reader.ReadLayer("projection", dimension_, both);
    }
    if (config.layer_norm) norm_ = reader.ReadNorm("norm", dimension_, config.norm_epsilon);
  }

  int64_t OutputDimension(int64_t dimension) const override { return dimension; }

  at::Tensor Fuse(const at::Tensor& parts, const at::Tensor& mask) const override {
    const at::Tensor missing = mask.neg().add(1).unsqueeze(2);
    at::Tensor x = parts.add(missing.mul(absent_)).view({parts.size(0), 2 * dimension_});
    if (up_) x = at::gelu(up_->Forward(x), "none");
    x = last_.Forward(x);
    return norm_ ? norm_->Forward(x) : x;
  }

 private:
  const int64_t dimension_;
  const at::Tensor absent_;
  std::optional<Layer> up_;
  Layer last_;
  std::optional<Norm> norm_;
};

class Gated final : public FusionModule {
 public:
  Gated(const FusionConfig& config, TensorReader& reader)
      : dimension_(config.dimension), gate_(reader.ReadLayer("gate", dimension_, 2 * dimension_)) {}

  int64_t OutputDimension(int64_t dimension) const override { return dimension; }

  at::Tensor Fuse(const at::Tensor& parts, const at::Tensor& mask) const override {
    const at::Tensor gate = gate_.Forward(parts.view({parts.size(0), 2 * dimension_})).sigmoid();
    const at::Tensor text_there = mask.narrow(1, 0, 1);
    const at::Tensor image_there = mask.narrow(1, 1, 1);
    // Where both are there the gate, else 1 for a text and 0 for an image.
    const at::Tensor share = text_there.mul(image_there.mul(gate).sub(image_there).add(1));
    return parts.select(1, 0).mul(share).add(parts.select(1, 1).mul(share.neg().add(1)));
  }

 private:
  const int64_t dimension_;
  const Layer gate_;
};

class CrossAttention final : public FusionModule {
 public:
  CrossAttention(const FusionConfig& config, TensorReader& reader)
      : dimension_(config.dimension),
        heads_(config.heads),
        class_token_(reader.Read("class_token", {1, dimension_})),
        part_embedding_(reader.Read("part_embedding", {2, dimension_})) {
    const auto norm = [&](const std::string& name) { return reader.ReadNorm(name, dimension_, config.norm_epsilon); };
    for (int64_t i = 0; i < config.layers; ++i) {
      const std::string layer = absl::StrCat("encoder.layers.", i, ".");
      layers_.push_back(
          {.attention_norm = norm(layer + "norm1"),
           .qkv = {.weight = reader.Read(layer + "self_attn.in_proj_weight", {3 * dimension_, dimension_}),
                   .bias = reader.Read(layer + "self_attn.in_proj_bias", {3 * dimension_})},
           .output = reader.ReadLayer(layer + "self_attn.out_proj", dimension_, dimension_),
           .feed_forward_norm = norm(layer + "norm2"),
           .up = reader.ReadLayer(layer + "linear1", config.hidden_size, dimension_),
           .down = reader.ReadLayer(layer + "linear2", dimension_, config.hidden_size)});
    }
    last_norm_ = norm("encoder.norm");
    projection_ = reader.ReadLayer("projection", dimension_, dimension_);
  }

  int64_t OutputDimension(int64_t dimension) const override { return dimension; }

  at::Tensor Fuse(const at::Tensor& parts, const at::Tensor& mask) const override {
    const int64_t batch = parts.size(0);
    at::Tensor tokens = at::cat({class_token_.expand({batch, 1, dimension_}), parts.add(part_embedding_)}, 1);
    // Added to the scores of a key that is not there: after softmax an exact 0, and finite. The class token always is.
    constexpr double kOutOfReach = 1e9;
    const at::Tensor keys =
        at::cat({mask.new_zeros({batch, 1}), mask.sub(1).mul(kOutOfReach)}, 1).view({batch, 1, 1, 3});
    for (const TransformerLayer& layer : layers_) {
      tokens = tokens.add(layer.output.Forward(Attend(layer.qkv.Forward(layer.attention_norm.Forward(tokens)), keys)));
      const at::Tensor inner = at::gelu(layer.up.Forward(layer.feed_forward_norm.Forward(tokens)), "none");
      tokens = tokens.add(layer.down.Forward(inner));
    }
    return projection_.Forward(last_norm_.Forward(tokens.select(1, 0)));
  }

 private:
  struct TransformerLayer {
    Norm attention_norm;
    Layer qkv;
    Layer output;
    Norm feed_forward_norm;
    Layer up;
    Layer down;
  };

  // qkv [B, 3, 3 D] -> [B, 3, D].
  at::Tensor Attend(const at::Tensor& qkv, const at::Tensor& keys) const {
    const int64_t batch = qkv.size(0);
    const int64_t head_size = dimension_ / heads_;
    const at::Tensor split = qkv.view({batch, 3, 3, heads_, head_size}).permute({2, 0, 3, 1, 4});  // q k v, B, h, token
    const at::Tensor scores =
        at::matmul(split[0], split[1].transpose(-2, -1)).mul(1 / std::sqrt(static_cast<double>(head_size))).add(keys);
    return at::matmul(scores.softmax(-1), split[2]).transpose(1, 2).reshape({batch, 3, dimension_});
  }

  const int64_t dimension_;
  const int64_t heads_;
  const at::Tensor class_token_;
  const at::Tensor part_embedding_;
  std::vector<TransformerLayer> layers_;
  Norm last_norm_;
  Layer projection_;
};

}  // namespace

absl::StatusOr<LoadedFusionModule> LoadLearnedFusion(const std::string& folder, std::string_view kind,
                                                     int64_t dimension, const ProgramDevice& device) {
  auto config = ReadFusionConfig(folder, kind);
  if (!config.ok()) return config.status();
  if (config->dimension != dimension) {
    return absl::InvalidArgumentError(absl::StrCat(folder, "/config.json: dimension is ", config->dimension,
                                                   ", the model's vectors have ", dimension, " numbers"));
  }
  auto weights = SafetensorsWeights::OpenFolder(folder);
  if (!weights.ok()) return weights.status();
  TensorReader reader(*weights, folder, device);
  LoadedFusionModule loaded;
  if (kind == "concat_projection") {
    loaded.module = std::make_unique<ConcatProjection>(*config, reader);
  } else if (kind == "gated") {
    loaded.module = std::make_unique<Gated>(*config, reader);
  } else {
    loaded.module = std::make_unique<CrossAttention>(*config, reader);
  }
  if (auto status = reader.Finish(); !status.ok()) return status;
  loaded.parameter_count = reader.parameter_count();
  loaded.parameter_bytes = reader.parameter_count() * sizeof(float);
  loaded.revision = weights->Revision();
  return loaded;
}

}  // namespace tributary
