#include "engine/libtorch/fuse/fusion_module.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/fuse/learned_fusion.h"

namespace tributary {
namespace {

class WeightedMean final : public FusionModule {
 public:
  explicit WeightedMean(double text_weight) : text_weight_(text_weight) {}
  int64_t OutputDimension(int64_t dimension) const override { return dimension; }

  at::Tensor Fuse(const at::Tensor& parts, const at::Tensor& mask) const override {
    // A weight of 0 would divide 0 by 0 where only that part is there. This much is lost in the rounding where both
    // are.
    constexpr double kLeastWeight = 1e-12;
    const at::Tensor text = mask.narrow(1, 0, 1).mul(text_weight_ + kLeastWeight);
    const at::Tensor image = mask.narrow(1, 1, 1).mul(1 - text_weight_ + kLeastWeight);
    const at::Tensor weights = at::cat({text, image}, 1).div(text.add(image));
    return parts.mul(weights.unsqueeze(2)).sum(1);
  }

 private:
  const double text_weight_;
};

class Hadamard final : public FusionModule {
 public:
  int64_t OutputDimension(int64_t dimension) const override { return dimension; }

  at::Tensor Fuse(const at::Tensor& parts, const at::Tensor& mask) const override {
    const at::Tensor present = mask.unsqueeze(2);
    return parts.mul(present).add(at::ones_like(present).sub(present)).prod(1);
  }
};

}  // namespace

absl::StatusOr<LoadedFusionModule> MakeFusionModule(const FusionOptions& options, int64_t dimension,
                                                    const ProgramDevice& device) {
  if (IsLearnedFusion(options.kind)) return LoadLearnedFusion(options.folder, options.kind, dimension, device);
  LoadedFusionModule plain;
  if (options.kind == "weighted_mean") plain.module = std::make_unique<WeightedMean>(options.text_weight);
  if (options.kind == "hadamard") plain.module = std::make_unique<Hadamard>();
  if (plain.module == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("fusion.kind must be ", kFusionKindsInWords, ", is '", options.kind, "'"));
  }
  return plain;
}

}  // namespace tributary
