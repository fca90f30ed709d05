// How a camera held the picture: read from EXIF or XMP, applied while the crop is taken. Internal to prepare/image.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/prepare/image/rect.h"

namespace tributary {

// EXIF tag 0x0112; the values are the tag's. Named by what has to be done to show the picture upright.
enum class Orientation : uint8_t {
  kUpright = 1,
  kMirror = 2,
  kRotate180 = 3,
  kFlip = 4,
  kTranspose = 5,
  kRotateRight = 6,  // 90 degrees clockwise
  kTransverse = 7,
  kRotateLeft = 8,
};

// Whether width and height change places.
constexpr bool SwapsSides(Orientation orientation) { return orientation >= Orientation::kTranspose; }

// Where an encoded picture may say it. Empty spans: it has none.
struct OrientationSources {
  std::span<const uint8_t> exif;  // a TIFF file, with or without "Exif\0\0" before it
  std::span<const uint8_t> xmp;   // asked only where EXIF has no such tag
};

// Same answer as PIL.ImageOps.exif_transpose. Whatever is broken or out of range counts as upright: metadata never
// fails a picture.
Orientation FindOrientation(const OrientationSources& sources);

// The tag in a TIFF block; nullopt: no such tag, or not a TIFF block. Reads only inside `tiff`.
std::optional<uint32_t> FindTiffOrientation(std::span<const uint8_t> tiff);

// Copies `part` of the upright picture, in its coordinates, out of the stored one. rgb u8 [height, width, 3]; out u8
// [part.height, part.width, 3].
void CopyUpright(const uint8_t* rgb, uint32_t width, uint32_t height, Orientation orientation, const Rect& part,
                 uint8_t* out);

}  // namespace tributary
