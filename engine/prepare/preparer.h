// What the preparation pool calls: raw input in, model input out. Implemented by prepare/text and prepare/image.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/api/types.h"
#include "engine/queue/work_item.h"

namespace tributary {

// Errors: INVALID_ARGUMENT with the value and the limit (too long with Truncation::kNone, id out of range, invalid
// UTF-8). Thread-safety: all const methods from any thread at once.
class TextPreparer {
 public:
  virtual ~TextPreparer() = default;
  virtual absl::StatusOr<TokenSequence> Prepare(const TextInput& input, Truncation truncation) const = 0;
};

// Errors: INVALID_ARGUMENT (not an image, truncated, too many pixels, raw size mismatch).
class ImagePreparer {
 public:
  virtual ~ImagePreparer() = default;
  virtual absl::StatusOr<PixelBlock> Prepare(const ImageInput& input) const = 0;
};

}  // namespace tributary
