// What joins the two vectors of a pair into one. Run by fuse/fusion_program, batched on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/device/program_device.h"

namespace tributary {

// Branch-free: presence of a part is a mask in the arithmetic, so that pairs with and without a part share one batch.
// Learned modules (fuse/learned_fusion) get the device at construction and keep their weights there.
// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
class FusionModule {
 public:
  virtual ~FusionModule() = default;
  // D of the fused vectors where the parts have `dimension`.
  virtual int64_t OutputDimension(int64_t dimension) const = 0;
  // parts f32 [B, 2, D] (0 text, 1 image; absent parts are zero), mask f32 [B, 2] (1 present, 0 absent; at least one is
  // present) -> f32 [B, OutputDimension(D)], not normalised.
  virtual at::Tensor Fuse(const at::Tensor& parts, const at::Tensor& mask) const = 0;
};

struct LoadedFusionModule {
  std::unique_ptr<FusionModule> module;
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;
  std::string revision;  // content hash of the weights; empty: there are none
};

// weighted_mean: the parts by options.text_weight and its complement; the weights of the parts that are there are
// scaled to
//   sum to one, so a lone part comes out as it is.
// hadamard: the parts' elementwise product; an absent part counts as ones.
// concat_projection, gated, cross_attention: learned, from options.folder (fuse/learned_fusion.h).
// `dimension`: D of the parts. Errors: INVALID_ARGUMENT for another kind; those of the folder. LibTorch's exceptions:
// the caller guards.
absl::StatusOr<LoadedFusionModule> MakeFusionModule(const FusionOptions& options, int64_t dimension,
                                                    const ProgramDevice& device);

}  // namespace tributary
