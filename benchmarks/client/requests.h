// The requests of a run, made before it starts: building them costs the load generator nothing while it measures.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/client/load_spec.h"
#include "tributary/v1/embedding_service.pb.h"

namespace tributary::bench {

struct RequestOptions {
  Mix mix;
  WordCounts words;
  std::string corpus;                            // a text file: words are taken from it in their order
  std::string image_folder;                      // JPEG, PNG and WebP files; empty: generated JPEGs
  std::vector<std::pair<int, int>> image_sizes;  // of generated ones
  size_t inputs_per_call = 1;
  size_t requests_per_kind = 256;  // then they repeat
  uint64_t seed = 1;
  v1::EmbedOptions options;
};

// Text and image requests carry `inputs_per_call` inputs; so do pairs. Kinds outside the mix have no requests.
// Thread-safety: const after construction; requests are lent to calls and must outlive them.
class Requests {
 public:
  // Errors: a corpus or image folder that cannot be read or is empty.
  static absl::StatusOr<Requests> Create(const RequestOptions& options);

  const v1::EmbedTextRequest& text(size_t i) const { return texts_[i % texts_.size()]; }
  const v1::EmbedImageRequest& image(size_t i) const { return images_[i % images_.size()]; }
  const v1::EmbedPairRequest& pair(size_t i) const { return pairs_[i % pairs_.size()]; }

 private:
  std::vector<v1::EmbedTextRequest> texts_;
  std::vector<v1::EmbedImageRequest> images_;
  std::vector<v1::EmbedPairRequest> pairs_;
};

}  // namespace tributary::bench
