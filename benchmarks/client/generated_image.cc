#include "benchmarks/client/generated_image.h"

#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary::bench {

absl::StatusOr<std::string> GenerateJpeg(int width, int height, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> frequency(2, 20);
  std::uniform_real_distribution<double> phase(0, 6.28);
  double waves[3][3];
  for (auto& wave : waves) {
    wave[0] = frequency(random) / width;
    wave[1] = frequency(random) / height;
    wave[2] = phase(random);
  }
  std::vector<unsigned char> rgb;
  rgb.reserve(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double noise = static_cast<double>(random() % 24);
      for (const auto& wave : waves) {
        const double value = 116 + 90 * std::sin(wave[0] * x + wave[2]) * std::cos(wave[1] * y) + noise;
        rgb.push_back(static_cast<unsigned char>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  const tjhandle compressor = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int failed =
      tjCompress2(compressor, rgb.data(), width, 0, height, TJPF_RGB, &bytes, &size, TJSAMP_420, /*jpegQual=*/85, 0);
  absl::StatusOr<std::string> jpeg;
  if (failed == 0) {
    jpeg = std::string(reinterpret_cast<const char*>(bytes), size);
  } else {
    jpeg = absl::InternalError(absl::StrCat("cannot compress an image: ", tjGetErrorStr2(compressor)));
  }
  tjFree(bytes);
  tjDestroy(compressor);
  return jpeg;
}

}  // namespace tributary::bench
