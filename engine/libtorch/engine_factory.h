// Torch-free door to the LibTorch engine: loads the models the options name, warms them, and returns the running
// engine.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/api/observer.h"
#include "engine/api/options.h"
#include "engine/base/clock.h"

namespace tributary {

// Errors: INVALID_ARGUMENT / NOT_FOUND naming the file, tensor or key that is wrong; UNAVAILABLE the device asked for
// is not there; RESOURCE_EXHAUSTED no memory or thread; INTERNAL what else LibTorch throws. `clock` and `observer` must
// outlive the engine.
absl::StatusOr<std::unique_ptr<Engine>> CreateLibtorchEngine(const EngineOptions& options, Clock* clock,
                                                             Observer* observer);

// "2.11.0+cu130": of the LibTorch library loaded.
std::string LibtorchVersion();

}  // namespace tributary
