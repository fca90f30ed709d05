// Photo-like JPEGs for load: smooth shapes and some noise, so that decoding costs about what a photo costs.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tributary::bench {

// Quality 85, 4:2:0. The same arguments give the same image.
absl::StatusOr<std::string> GenerateJpeg(int width, int height, uint64_t seed);

}  // namespace tributary::bench
