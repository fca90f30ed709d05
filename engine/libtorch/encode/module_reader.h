// Reads the weights of an encoder as the modules it is made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/encode/norm.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {

// Weight [out, in] and bias [out] of one or several linear layers, before they are laid out.
struct LinearWeights {
  at::Tensor weight;
  at::Tensor bias;  // undefined: none
};

// Keeps the first error and reads nothing after it: a loader puts the whole encoder together, then checks once. What is
// read after an error is empty.
// Names are those of the family; what a file has before them (bert., model., ...) is found by `probe`, a tensor that
// every file of the family has. Tensors that are not asked for (poolers, heads) are not looked at.
// Thread-safety: none needed.
class ModuleReader {
 public:
  ModuleReader(const SafetensorsWeights& weights, const std::string& probe, ComputeType type,
               const ProgramDevice& device);

  bool Has(const std::string& name) const { return weights_.Has(prefix_ + name); }

  // An embedding table, in the file's type, on the device. On CPU it stays in the mapped file: only the rows that are
  // used are ever read.
  at::Tensor Table(const std::string& name, int64_t rows, int64_t width);
  // A few numbers, f32.
  at::Tensor Values(const std::string& name, const std::vector<int64_t>& shape);

  LinearWeights ReadLinear(const std::string& name, int64_t out, int64_t in, bool bias);
  // The same for a convolution's weight, [out, ...].
  LinearWeights ReadKernel(const std::string& name, const std::vector<int64_t>& shape, bool bias);
  // Several over the same input as one, outputs after each other. All with a bias or all without.
  LinearWeights Join(const std::vector<LinearWeights>& parts) const;
  // Outputs first .. first + count.
  LinearWeights Rows(const LinearWeights& whole, int64_t first, int64_t count) const;
  Linear Place(const LinearWeights& weights) const;

  // For inputs of the compute type, or f32.
  Norm LayerNorm(const std::string& name, int64_t size, double epsilon, bool bias, bool f32_input);
  // The gain is `offset` + weight.
  Norm RmsNorm(const std::string& name, int64_t size, double epsilon, double offset);

  void Fail(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }
  uint64_t parameter_count() const { return parameter_count_; }
  uint64_t parameter_bytes() const { return parameter_bytes_; }

 private:
  at::Tensor Read(const std::string& name, const std::vector<int64_t>& shape);

  const SafetensorsWeights& weights_;
  const ComputeType type_;
  const ProgramDevice device_;
  std::string prefix_;
  absl::Status status_;
  uint64_t parameter_count_ = 0;
  uint64_t parameter_bytes_ = 0;
};

}  // namespace tributary
