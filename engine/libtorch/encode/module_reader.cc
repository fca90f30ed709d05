#include "engine/libtorch/encode/module_reader.h"

#include <ATen/ops/cat.h>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"

namespace tributary {

ModuleReader::ModuleReader(const SafetensorsWeights& weights, const std::string& probe, ComputeType type,
                           const ProgramDevice& device)
    : weights_(weights), type_(type), device_(device) {
  auto prefix = weights.PrefixOf(probe);
  if (prefix.ok()) {
    prefix_ = *std::move(prefix);
  } else {
    status_ = prefix.status();
  }
}

at::Tensor ModuleReader::Read(const std::string& name, const std::vector<int64_t>& shape) {
  if (!status_.ok()) return {};
  auto tensor = weights_.GetFloats(prefix_ + name, shape);
  if (!tensor.ok()) {
    status_ = tensor.status();
    return {};
  }
  parameter_count_ += static_cast<uint64_t>(tensor->numel());
  return *std::move(tensor);
}

at::Tensor ModuleReader::Table(const std::string& name, int64_t rows, int64_t width) {
  const at::Tensor table = Read(name, {rows, width});
  if (!table.defined()) return {};
  parameter_bytes_ += table.nbytes();
  return table.to(TorchDevice(device_));
}

at::Tensor ModuleReader::Values(const std::string& name, const std::vector<int64_t>& shape) {
  const at::Tensor values = Read(name, shape);
  if (!values.defined()) return {};
  parameter_bytes_ += static_cast<uint64_t>(values.numel()) * sizeof(float);
  return values.to(at::kFloat);
}

LinearWeights ModuleReader::ReadLinear(const std::string& name, int64_t out, int64_t in, bool bias) {
  if (constexpr auto kMost = static_cast<int64_t>(Int8Weight::kMaxInputs); type_ == ComputeType::kInt8 && in > kMost) {
    Fail(absl::InvalidArgumentError(absl::StrCat("tensor '", prefix_, name, ".weight': dtype int8 is for at most ",
                                                 kMost, " inputs, there are ", in)));
  }
  return ReadKernel(name, {out, in}, bias);
}

LinearWeights ModuleReader::ReadKernel(const std::string& name, const std::vector<int64_t>& shape, bool bias) {
  LinearWeights weights{.weight = Read(name + ".weight", shape), .bias = {}};
  if (bias) weights.bias = Read(name + ".bias", {shape.front()});
  if (!status_.ok()) return {};
  const auto count = static_cast<uint64_t>(weights.weight.numel());
  const auto outputs = static_cast<uint64_t>(shape.front());
  // int8: a byte a weight, a scale an output.
  parameter_bytes_ += type_ == ComputeType::kInt8 ? count + (bias ? 2 * outputs : outputs) * sizeof(float)
                                                  : (count + (bias ? outputs : 0)) * c10::elementSize(TorchType(type_));
  return weights;
}

LinearWeights ModuleReader::Join(const std::vector<LinearWeights>& parts) const {
  if (!status_.ok()) return {};
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  for (const LinearWeights& part : parts) {
    weights.push_back(part.weight);
    if (part.bias.defined()) biases.push_back(part.bias);
  }
  return {.weight = at::cat(weights), .bias = biases.empty() ? at::Tensor() : at::cat(biases)};
}

LinearWeights ModuleReader::Rows(const LinearWeights& whole, int64_t first, int64_t count) const {
  if (!status_.ok()) return {};
  return {.weight = whole.weight.narrow(0, first, count),
          .bias = whole.bias.defined() ? whole.bias.narrow(0, first, count) : at::Tensor()};
}

Linear ModuleReader::Place(const LinearWeights& weights) const {
  return status_.ok() ? Linear(weights.weight, weights.bias, type_, device_) : Linear();
}

Norm ModuleReader::LayerNorm(const std::string& name, int64_t size, double epsilon, bool bias, bool f32_input) {
  // The oldest BERT files call them so.
  const bool old_names = !Has(name + ".weight") && Has(name + ".gamma");
  const at::Tensor gain = Read(name + (old_names ? ".gamma" : ".weight"), {size});
  const at::Tensor offset = bias ? Read(name + (old_names ? ".beta" : ".bias"), {size}) : at::Tensor();
  if (!status_.ok()) return {};
  // On CUDA the kernel wants gain and bias in the input's type; it still computes in fp32.
  const at::ScalarType as = device_.kind == DeviceKind::kCuda && !f32_input ? TorchType(type_) : at::kFloat;
  parameter_bytes_ += static_cast<uint64_t>(bias ? 2 * size : size) * c10::elementSize(as);
  const auto place = [&](const at::Tensor& values) {
    return values.to(TorchDevice(device_), as, /*non_blocking=*/false, /*copy=*/true);
  };
  return {
      .kind = Norm::Kind::kLayer, .gain = place(gain), .bias = bias ? place(offset) : at::Tensor(), .epsilon = epsilon};
}

Norm ModuleReader::RmsNorm(const std::string& name, int64_t size, double epsilon, double offset) {
  const at::Tensor gain = Values(name + ".weight", {size});
  if (!status_.ok()) return {};
  return {.kind = Norm::Kind::kRms, .gain = gain.add(offset).to(TorchDevice(device_)), .bias = {}, .epsilon = epsilon};
}

}  // namespace tributary
