// What trial runs of exported modules have in common: their errors. Torch-free.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "engine/libtorch/exported/export_manifest.h"

namespace tributary {

// `status` of a trial run, with the file and the run in front.
absl::Status WrongExport(const ExportManifest& manifest, const std::string& run, const absl::Status& status);
// INVALID_ARGUMENT where a value of a trial run is not finite.
absl::Status CheckFinite(const ExportManifest& manifest, const std::string& run, std::span<const float> values);
// INVALID_ARGUMENT where the vectors of one input, alone and beside others, are not the same to a cosine of 0.99: less
// than rounding in any type, more than what an unused mask or a wrong element type leaves.
absl::Status CheckSameVector(const ExportManifest& manifest, const std::string& what, std::span<const float> alone,
                             std::span<const float> beside);

}  // namespace tributary
