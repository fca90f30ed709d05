// The texts of a model: tokeniser and encoder, on every device they are placed on. Used by model_loader; torch-free.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/model_placement.h"
#include "engine/libtorch/weights/hub_folder.h"
#include "engine/prepare/text/text_preparer.h"

namespace tributary {

struct TextPart {
  TextModelFolder folder;
  std::unique_ptr<TokenizingPreparer> preparer;
  std::vector<LoadedTextProgram> replicas;  // one a device, in their order
  // The encoder in fp32, loaded when it is needed, one a replica; empty where the replicas are fp32, or exported.
  std::vector<std::unique_ptr<BatchProgram>> fallbacks;
};

// `folder`: a hub folder, or one with a tributary.json. `devices`: not empty.
// Errors: those of the readers; INVALID_ARGUMENT tokeniser and encoder do not fit together.
absl::StatusOr<TextPart> LoadTextPart(const EngineOptions& options, const TextModelOptions& text,
                                      const std::string& folder, const std::vector<PlacedDevice>& devices);

}  // namespace tributary
