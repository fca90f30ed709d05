// The loaders of the text encoder families, one a file here; chosen by encode/text_families. Each reads its
// config.json, names its tensors and puts the encoder together; what it cannot run as the reference does is an error
// naming the key.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/json_file.h"

namespace tributary {

class SafetensorsWeights;
class TextEncoder;

struct FamilyInput {
  JsonFile& config;
  const SafetensorsWeights& weights;
  ComputeType type = ComputeType::kFp32;
  ProgramDevice device;
};

using LoadedFamily = absl::StatusOr<std::unique_ptr<TextEncoder>>;

LoadedFamily LoadBert(const FamilyInput& input);
LoadedFamily LoadClipText(const FamilyInput& input);
LoadedFamily LoadDistilBert(const FamilyInput& input);
LoadedFamily LoadGemma3(const FamilyInput& input);
LoadedFamily LoadGte(const FamilyInput& input);
LoadedFamily LoadModernBert(const FamilyInput& input);
LoadedFamily LoadMpNet(const FamilyInput& input);
LoadedFamily LoadNomicBert(const FamilyInput& input);
LoadedFamily LoadQwen3(const FamilyInput& input);
LoadedFamily LoadRoberta(const FamilyInput& input);  // and XLM-RoBERTa
LoadedFamily LoadSiglipText(const FamilyInput& input);

}  // namespace tributary
