// Compares a model with reference vectors while it loads: a wrong vector is found at start, not by its users.
// Torch-free.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/model_placement.h"
#include "engine/pipeline/pipeline.h"

namespace tributary {

// Inputs and the vectors the model's original gives for them.
struct ReferenceVectors {
  struct Entry {
    std::string input;  // text as UTF-8, or the bytes of an image file
    std::vector<float> vector;
  };
  std::vector<Entry> texts;
  std::vector<Entry> images;
};

// Reads {"format": 1, "texts": [{"text": "...", "vector": [...]}], "images": [{"file": "a.jpg", "vector": [...]}]};
// image files are relative to the file. At least one entry, at most 1,024 of a kind, each file at most 64 MiB. Errors:
// NOT_FOUND / INVALID_ARGUMENT naming the file and the entry.
absl::StatusOr<ReferenceVectors> ReadReferenceVectors(const std::string& file);

// Prepares and embeds every entry of options.file with every replica of the loaded model, on the calling thread (set up
// by InitTorchThread), and writes the lowest cosine and the verdict into model.info. Texts get the model's default
// prompt. No file: does nothing. Errors: those of reading; INVALID_ARGUMENT an entry the model cannot take (kind,
// dimensions);
//   FAILED_PRECONDITION a cosine below the limit, unless options.allow_mismatch.
absl::Status CheckAgainstReference(const SelfCheckOptions& options, const ModelPlacement& placement,
                                   ServedModel& model);

}  // namespace tributary
