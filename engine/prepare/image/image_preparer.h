// Turns encoded or raw pictures into the pixels an image encoder eats. Called by the preparation pool; feeds
// the image queue.
#pragma once

#include <memory>

#include "engine/api/options.h"
#include "engine/prepare/image/image_preprocessing.h"
#include "engine/prepare/preparer.h"

namespace tributary {

// Per picture, equal to Pillow's:
//   image = ImageOps.exif_transpose(Image.open(f)).convert("RGB")    (transparency: see ImagePreprocessing)
//   kCropFirst: side = max(1, min(w, h) * width // (width + crop_padding))
//               left = (w - side + 1) // 2;  top = (h - side + 1) // 2
//               image.crop((left, top, left + side, top + side)).resize((width, height), filter)
//   else: resize, then centre crop, as transformers' image processors on Pillow do (resize_plan.h)
// Formats: JPEG (baseline, progressive; gray, YCbCr, CMYK, YCCK), PNG, WebP (of an animation the first frame), raw RGB.
// Errors: INVALID_ARGUMENT empty, of no known format, truncated, broken, more pixels than `limits` allow, raw size that
//   does not fit, a JPEG of more than 100 scans, a PNG with more than 4 MiB of metadata, so long and thin that its
//   resize would need more than 64 MiB; RESOURCE_EXHAUSTED no memory.
//   The pixel limit is checked on the header's figures before anything is allocated; the limit of bytes is the
//   preparation pool's to check. Warnings of the decoders are not errors.
// Memory: per thread at work, at most 10 bytes per pixel (progressive JPEG; others 3 to 7) and, of a PNG, 8 MiB of
//   metadata; given back afterwards beyond a few MB.
// Source: center crop as in tensorflow/tpu models/official/efficientnet/preprocessing.py.
std::unique_ptr<ImagePreparer> MakeImagePreparer(const ImagePreprocessing& preprocessing, const InputLimits& limits);

}  // namespace tributary
