#include "engine/api/options.h"

namespace tributary {

absl::Status Validate(const EngineOptions&) { return absl::OkStatus(); }

}  // namespace tributary
