// Turns encoded or raw pictures into the square of pixels an image encoder eats. Called by the preparation pool; feeds
// the image queue.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/api/options.h"
#include "engine/prepare/preparer.h"

namespace tributary {

// The crop and size of a model. The default is EfficientNet-Lite0's.
struct ImagePreprocessing {
  uint32_t size = 224;         // output side, pixels
  uint32_t crop_padding = 32;  // the crop's side is size / (size + crop_padding) of the picture's short side
};

// Per picture, equal to Pillow's:
//   image = ImageOps.exif_transpose(Image.open(f)).convert("RGB")
//   side  = max(1, min(w, h) * size // (size + crop_padding));  left = (w - side + 1) // 2;  top = (h - side + 1) // 2
//   image.crop((left, top, left + side, top + side)).resize((size, size), Image.BICUBIC)
// Formats: JPEG (baseline, progressive; gray, YCbCr, CMYK, YCCK), PNG, WebP (of an animation the first frame), raw RGB.
// Errors: INVALID_ARGUMENT empty, of no known format, truncated, broken, more pixels than `limits` allow, raw size that
//   does not fit, a JPEG of more than 100 scans, a PNG with more than 4 MiB of metadata; RESOURCE_EXHAUSTED no memory.
//   The pixel limit is checked on the header's figures before anything is allocated; the limit of bytes is the
//   preparation pool's to check. Warnings of the decoders are not errors.
// Memory: per thread at work, at most 10 bytes per pixel (progressive JPEG; others 3 to 7) and, of a PNG, 8 MiB of
//   metadata; given back afterwards beyond a few MB.
// Source: center crop as in tensorflow/tpu models/official/efficientnet/preprocessing.py.
std::unique_ptr<ImagePreparer> MakeImagePreparer(const ImagePreprocessing& preprocessing, const InputLimits& limits);

}  // namespace tributary
