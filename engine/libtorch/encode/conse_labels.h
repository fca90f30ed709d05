// The label side of ConSE: class names of an image classifier as vectors of the text space, computed once and kept on
// disk. Used by the factory while it loads a model that serves text and images. Torch-free.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

// f32 [classes, dimension], row-major, rows L2-normalised, in class order.
struct LabelVectors {
  std::vector<float> values;
  size_t classes = 0;
  size_t dimension = 0;
};

// The sentences to embed: every line of the file at `path` is a class name, put where `label_template` has "{name}".
// Errors: NOT_FOUND no such file; INVALID_ARGUMENT no or empty names, no "{name}" in the template.
absl::StatusOr<std::vector<std::string>> ReadLabelSentences(const std::string& path, const std::string& label_template);

// Embeds sentences with the model's own text encoder: one vector each, in order, all of one length.
using EmbedSentences =
    std::function<absl::StatusOr<std::vector<std::vector<float>>>(const std::vector<std::string>& sentences)>;

// From the cache file in `cache_folder` named after a hash of the sentences and `encoder_key`, or, where there is none
// or it is damaged, by `embed`, and then written there for the next start. `encoder_key`: everything else the vectors
// depend on (text weights and their configuration, compute type, what the tokeniser makes of the sentences). An empty
// folder, or one that cannot be written: no cache, no error. Errors: what `embed` returns; INTERNAL when its vectors
// are not one a sentence, finite, not zero, of one length.
absl::StatusOr<LabelVectors> LoadOrComputeLabelVectors(const std::vector<std::string>& sentences,
                                                       const std::string& encoder_key, const std::string& cache_folder,
                                                       const EmbedSentences& embed);

// Where LoadOrComputeLabelVectors keeps them.
std::string LabelCachePath(const std::vector<std::string>& sentences, const std::string& encoder_key,
                           const std::string& cache_folder);

}  // namespace tributary
