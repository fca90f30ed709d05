// tributary.json: what an exported model's folder says about its module. Torch-free; read by exported/exported_program,
// written by scripts/export.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

enum class ModuleType : uint8_t { kAotInductor, kTorchScript };
enum class ElementType : uint8_t { kUint8, kInt32, kInt64, kFloat32, kFloat16, kBfloat16 };
size_t ElementBytes(ElementType type);
const char* ElementTypeName(ElementType type);  // as in the manifest: "int64"

// What an argument of the module is made of. Text: each [B, L]; 1 in the mask where a token is, 0 in the padding.
enum class InputRole : uint8_t { kIds, kAttentionMask, kPositionIds, kTokenTypeIds, kPixels };

struct ExportedInput {
  InputRole role = InputRole::kIds;
  ElementType type = ElementType::kInt64;
};

struct ExportedOutput {
  enum class Holds : uint8_t { kTokenStates, kVectors } holds = Holds::kVectors;  // [B, L, D], [B, D]
  size_t index = 0;  // among the module's outputs, nested ones counted through
  std::string name;  // TorchScript that returns a dictionary: the key; else empty
  ElementType type = ElementType::kFloat32;
  int64_t dimension = 0;  // D
};

// Smallest and largest size of a dynamic dimension, both included.
struct DimensionRange {
  int64_t min = 1;
  int64_t max = 1;
};

struct ExportedTextPart {
  DimensionRange length;         // tokens
  int64_t pad_id = 0;            // what padding is filled with
  int64_t vocabulary_size = 0;   // every id is below it
  std::vector<Pooling> pooling;  // of token states; empty: modules.json says it
  bool normalise = false;        // where modules.json does not say it
};

// pixel -> (pixel * rescale - mean) / std, per channel; done by the engine, not by the module.
struct ExportedImagePart {
  uint32_t size = 0;           // side of the square, pixels
  bool channels_last = false;  // pixels [B, H, W, 3] instead of [B, 3, H, W]
  double rescale = 1;
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};
  bool normalise = false;
};

struct ExportManifest {
  std::string path;  // of tributary.json, for messages
  std::string module_path;
  ModuleType type = ModuleType::kTorchScript;
  DeviceKind device = DeviceKind::kCpu;
  ComputeType dtype = ComputeType::kFp32;  // of weights and arithmetic
  std::vector<std::string> libraries;      // file names of the custom-op libraries it needs
  std::vector<ExportedInput> inputs;       // in the order of the module's arguments
  ExportedOutput output;
  DimensionRange batch;
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;
  std::optional<ExportedTextPart> text;  // one of the two
  std::optional<ExportedImagePart> image;
};

// Whether `folder` holds a tributary.json.
bool IsExportedModel(const std::string& folder);

// Strict: an unknown key, a wrong type or value is an error that names the file and the key. Where an image manifest
// has no transform of its own, rescale, mean and std are those of preprocessor_config.json beside it.
// Errors: NOT_FOUND tributary.json or the module file it names is not there; INVALID_ARGUMENT otherwise.
absl::StatusOr<ExportManifest> ReadExportManifest(const std::string& folder);

}  // namespace tributary
