// TorchScript modules. The one file with their headers.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/codegen/fuser/interface.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <string>
#include <utility>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/exported/exported_module.h"

namespace tributary {
namespace {

// Tensors of a value, lists and tuples counted through.
void Flatten(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  } else if (value.isTuple()) {
    for (const c10::IValue& part : value.toTupleRef().elements()) Flatten(part, tensors);
  } else if (value.isList()) {
    for (const c10::IValue& part : value.toListRef()) Flatten(part, tensors);
  }
}

class TorchScriptModule final : public ExportedModule {
 public:
  TorchScriptModule(torch::jit::Module module, ExportedOutput output)
      : module_(std::move(module)), forward_(module_.get_method("forward")), output_(std::move(output)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs) const override {
    const c10::IValue value = forward_(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
    if (!output_.name.empty()) {
      TORCH_CHECK(value.isGenericDict(), "output.name is '", output_.name, "', but the module returns ",
                  value.tagKind(), ", not a dictionary");
      for (const auto& entry : value.toGenericDict()) {
        if (entry.key().isString() && entry.key().toStringRef() == output_.name) return entry.value().toTensor();
      }
      TORCH_CHECK(false, "the dictionary the module returns has no '", output_.name, "' (output.name)");
    }
    std::vector<at::Tensor> outputs;
    Flatten(value, outputs);
    TORCH_CHECK(output_.index < outputs.size(), "output.index is ", output_.index, ", the module returns ",
                outputs.size(), " tensors (", value.tagKind(), ")");
    return outputs[output_.index];
  }

 private:
  const torch::jit::Module module_;
  const torch::jit::Method forward_;
  const ExportedOutput output_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportedModule>> LoadTorchScriptModule(const ExportManifest& manifest,
                                                                      const ProgramDevice& device) {
  return GuardTorch([&]() -> absl::StatusOr<std::unique_ptr<ExportedModule>> {
    // The older executor, for the whole process: the profiling one specialises for the first shapes it meets, so that
    // its first twenty or so runs are many times slower, and padded batches bring new shapes for ever. Its fuser
    // compiles kernels while requests wait, so that it stays off.
    torch::jit::getExecutorMode() = false;
    torch::jit::overrideCanFuseOnGPU(false);
    torch::jit::Module module = torch::jit::load(manifest.module_path, TorchDevice(device));
    // Not frozen here, but by who saves it: of what freeze makes in memory (2.11), the functions its nodes were inlined
    // from are gone, and the process ends where a run throws and their names are asked for.
    if (module.hasattr("training")) module.eval();
    return std::make_unique<TorchScriptModule>(std::move(module), manifest.output);
  });
}

}  // namespace tributary
