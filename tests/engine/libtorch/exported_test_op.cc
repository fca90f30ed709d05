// A library with an operator of its own, as a customer or Torch-TensorRT would bring one; loaded by op_libraries.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace {

at::Tensor Scale(const at::Tensor& x, double factor) { return x.mul(factor); }

}  // namespace

TORCH_LIBRARY(tributary_test, library) { library.def("scale(Tensor x, float factor) -> Tensor", &Scale); }
