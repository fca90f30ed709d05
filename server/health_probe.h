// Asks a server for its health, as a container's health check does.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace tributary {

// One standard health check of the whole server at `address` (HOST:PORT, plain text). OK: it says SERVING.
// Errors: UNAVAILABLE it says something else; otherwise the call's own status, as where nobody listens.
absl::Status ProbeHealth(const std::string& address, std::chrono::milliseconds timeout);

}  // namespace tributary
