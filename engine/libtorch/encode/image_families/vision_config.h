// What the config.json of the image families say in common.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/weights/json_file.h"
#include "engine/prepare/image/image_preprocessing.h"

namespace tributary {

// Pixels.
struct Sides {
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const Sides&) const = default;
};

// A whole number for both, or [height, width].
Sides ReadSides(JsonFile& file, const char* key, int64_t fallback);

Sides SidesOf(const ImagePreprocessing& preprocessing);

// How many patches there are in each direction; pixels that fill none are left out. At least one.
Sides PatchGrid(JsonFile& file, const Sides& image, const Sides& patch);

// Whole numbers above 0.
std::vector<int64_t> ReadCounts(JsonFile& file, const char* key, const std::vector<int64_t>& fallback);

// Images have three channels here.
void CheckChannels(JsonFile& file);

// What follows a feed-forward half's first product. quick_gelu, x * sigmoid(1.702 x), is silu(1.702 x) / 1.702: the
// factors go into the two layers around it, so that it is fused like any other.
struct FeedForwardActivation {
  Activation activation = Activation::kGelu;
  double factor = 1;
};

FeedForwardActivation ReadFeedForwardActivation(JsonFile& file, const char* fallback);

struct VisionConfig {
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  Sides image;
  Sides patch;
  double norm_epsilon = 0;
  FeedForwardActivation activation;
};

struct VisionDefaults {
  int64_t patch = 16;
  double norm_epsilon = 1e-6;
  const char* activation = "gelu";
};

// Of a transformer over patches. Errors are noted in the file.
VisionConfig ReadVisionConfig(JsonFile& file, const VisionDefaults& defaults);

// The images that come are of the size the positions are for.
void CheckImageSize(JsonFile& file, const VisionConfig& config, const ImagePreprocessing& preprocessing);

}  // namespace tributary
