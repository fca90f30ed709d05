#include "engine/libtorch/encode/text_head.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {
namespace {

at::Tensor Activate(DenseModule::Activation activation, const at::Tensor& x) {
  switch (activation) {
    case DenseModule::Activation::kIdentity:
      return x;
    case DenseModule::Activation::kTanh:
      return x.tanh();
    case DenseModule::Activation::kRelu:
      return x.relu();
    case DenseModule::Activation::kGelu:
      return at::gelu(x, "none");
    case DenseModule::Activation::kSigmoid:
      return x.sigmoid();
    case DenseModule::Activation::kSilu:
      return at::silu(x);
  }
  return x;
}

}  // namespace

absl::StatusOr<TextHead> TextHead::Load(const TextModelFolder& folder, int64_t hidden_size,
                                        const ProgramDevice& device) {
  if (folder.pooled_size && *folder.pooled_size != hidden_size) {
    return absl::InvalidArgumentError(absl::StrCat(folder.transformer_folder, ": pooling is for vectors of ",
                                                   *folder.pooled_size, " numbers, the encoder's have ", hidden_size));
  }
  TextHead head;
  head.poolings_ = folder.pooling;
  head.dimensions_ = hidden_size * static_cast<int64_t>(folder.pooling.size());
  ContentHash revisions;
  for (const DenseModule& module : folder.dense) {
    if (module.in_features != head.dimensions_) {
      return absl::InvalidArgumentError(absl::StrCat(module.folder, "/config.json: in_features is ", module.in_features,
                                                     ", what comes in has ", head.dimensions_));
    }
    auto weights = SafetensorsWeights::OpenFolder(module.folder);
    if (!weights.ok()) return weights.status();
    auto weight = weights->Get("linear.weight", {module.out_features, module.in_features});
    if (!weight.ok()) return weight.status();
    Dense dense{.weight = weight->to(TorchDevice(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true),
                .bias = {},
                .activation = module.activation};
    head.parameter_count_ += static_cast<uint64_t>(weight->numel());
    if (module.bias) {
      auto bias = weights->Get("linear.bias", {module.out_features});
      if (!bias.ok()) return bias.status();
      dense.bias = bias->to(TorchDevice(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      head.parameter_count_ += static_cast<uint64_t>(bias->numel());
    }
    head.dense_.push_back(std::move(dense));
    head.dimensions_ = module.out_features;
    revisions.Add(weights->Revision());
    head.revision_ = revisions.Hex();
  }
  return head;
}

TextHead TextHead::Of(const std::optional<EndToken>& end, const at::Tensor& weight, const at::Tensor& bias,
                      int64_t hidden_size, const ProgramDevice& device) {
  TextHead head;
  head.end_ = end;
  if (!end) head.poolings_ = {Pooling::kLastToken};
  head.dimensions_ = hidden_size;
  if (!weight.defined()) return head;
  const auto place = [&](const at::Tensor& values) {
    if (!values.defined()) return values;
    head.parameter_count_ += static_cast<uint64_t>(values.numel());
    return values.to(TorchDevice(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  };
  head.dimensions_ = weight.size(0);
  head.dense_.push_back(
      {.weight = place(weight), .bias = place(bias), .activation = DenseModule::Activation::kIdentity});
  return head;
}

at::Tensor TextHead::Forward(const at::Tensor& hidden, const at::Tensor& ids, const at::Tensor& positions,
                             const PackedSequences& sequences) const {
  at::Tensor vectors =
      end_ ? PoolEndToken(*end_, hidden, ids, positions, sequences) : Pool(poolings_, hidden, positions, sequences);
  for (const Dense& dense : dense_) {
    const auto bias = dense.bias.defined() ? std::optional(dense.bias) : std::nullopt;
    vectors = Activate(dense.activation, at::linear(vectors, dense.weight, bias));
  }
  return vectors;
}

}  // namespace tributary
