#include "engine/libtorch/device/torch_device.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_thread.h"

namespace tributary {

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
