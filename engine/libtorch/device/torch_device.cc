#include "engine/libtorch/device/torch_device.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cpu/Utils.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_thread.h"

namespace tributary {
namespace {

bool CpuHasAmxBf16() {
  const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto found = capabilities.find("amx_bf16");
  return found != capabilities.end() && found->second.isBool() && found->second.toBool();
}

// Whether oneDNN has bf16 products for this processor at all.
bool CpuMultipliesBf16() {
  return c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_is_mkldnn_bf16_supported", "").typed<bool()>().call();
}

}  // namespace

void InitTorchThread() { at::set_num_threads(1); }

std::string_view ComputeTypeName(ComputeType type) {
  switch (type) {
    case ComputeType::kFp32:
      return "fp32";
    case ComputeType::kBf16:
      return "bf16";
    case ComputeType::kFp16:
      return "fp16";
    case ComputeType::kInt8:
      return "int8";
  }
  return "?";
}

absl::StatusOr<ComputeType> ResolveComputeType(std::string_view dtype, const ProgramDevice& device) {
  const bool cuda = device.kind == DeviceKind::kCuda;
  if (dtype == "auto") {
    if (cuda) return ComputeType::kFp16;
    return GuardTorch(
        []() -> absl::StatusOr<ComputeType> { return CpuHasAmxBf16() ? ComputeType::kBf16 : ComputeType::kFp32; });
  }
  if (dtype == "fp32") return ComputeType::kFp32;
  if (dtype == "bf16") {
    auto supported = GuardTorch([&]() -> absl::StatusOr<bool> { return cuda || CpuMultipliesBf16(); });
    if (!supported.ok()) return supported.status();
    if (*supported) return ComputeType::kBf16;
    return absl::InvalidArgumentError("dtype bf16 needs a processor with AVX-512 or AMX; use auto or fp32");
  }
  if (dtype == "fp16" && cuda) return ComputeType::kFp16;
  if (dtype == "fp16") {
    return absl::InvalidArgumentError("dtype fp16 needs a CUDA device; on cpu: auto, fp32, bf16, int8");
  }
  if (dtype == "int8" && !cuda) return ComputeType::kInt8;
  if (dtype == "int8") {
    return absl::InvalidArgumentError("dtype int8 is for cpu only; on a CUDA device: auto, fp32, bf16, fp16");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype must be auto, fp32, bf16, fp16 or int8, is '", std::string(dtype), "'"));
}

c10::Device TorchDevice(const ProgramDevice& device) {
  if (device.kind == DeviceKind::kCpu) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index));
}

at::ScalarType TorchType(ComputeType type) {
  switch (type) {
    case ComputeType::kFp32:
      return at::kFloat;
    case ComputeType::kBf16:
      return at::kBFloat16;
    case ComputeType::kFp16:
      return at::kHalf;
    case ComputeType::kInt8:  // rounded inside the linear layers, and nowhere else
      return at::kFloat;
  }
  return at::kFloat;
}

void SynchroniseDevice(const ProgramDevice& device) {
  if (device.kind == DeviceKind::kCpu) return;
  const c10::Device where = TorchDevice(device);
  c10::impl::VirtualGuardImpl(where.type()).synchronizeDevice(where.index());
}

absl::Status StatusOfTorchException() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(absl::StrCat("out of device memory: ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.what()));
  } catch (...) {
    return absl::InternalError("LibTorch: an exception that is no std::exception");
  }
}

}  // namespace tributary
