#include "engine/libtorch/exported/export_checks.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr double kSameVector = 0.99;

}  // namespace

absl::Status WrongExport(const ExportManifest& manifest, const std::string& run, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kResourceExhausted) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(manifest.module_path, " does not do what ", manifest.path, " says: ", run, ": ", status.message()));
}

absl::Status CheckFinite(const ExportManifest& manifest, const std::string& run, std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return WrongExport(manifest, run,
                       absl::InvalidArgumentError(absl::StrCat("number ", i, " of the output is ", values[i])));
  }
  return absl::OkStatus();
}

absl::Status CheckSameVector(const ExportManifest& manifest, const std::string& what, std::span<const float> alone,
                             std::span<const float> beside) {
  double product = 0;
  double norms[] = {0, 0};
  for (size_t i = 0; i < alone.size(); ++i) {
    product += double{alone[i]} * beside[i];
    norms[0] += double{alone[i]} * alone[i];
    norms[1] += double{beside[i]} * beside[i];
  }
  if (norms[0] == 0 && norms[1] == 0) return absl::OkStatus();
  const double cosine = product / std::sqrt(norms[0] * norms[1]);
  if (cosine >= kSameVector) return absl::OkStatus();
  return WrongExport(manifest, what,
                     absl::InvalidArgumentError(absl::StrCat(
                         "the vectors differ (cosine ", cosine,
                         "): is the attention mask used, the batch dynamic, the inputs' dtype and order right?")));
}

}  // namespace tributary
