// What every image encoder family is to the program that runs it: pixels in, one vector an image out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "engine/libtorch/encode/image_classifier.h"

namespace tributary {

struct ImageEncoderInfo {
  // Of the images it takes, pixels.
  int64_t width = 0;
  int64_t height = 0;
  int64_t dimensions = 0;  // of a vector
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;  // in the types they are run in
};

// Made by encode/image_families from a model folder; run by encode/image_program. Its weights hold the model's own
// normalising of pixels: what comes in are bytes.
// Rows are images and nothing more: frames of videos are rows too ([videos * frames, height, width, 3]), and whoever
// packed them pools their vectors.
// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
class ImageEncoder {
 public:
  ImageEncoder(const ImageEncoderInfo& info, ImageClassifier classifier)
      : info_(info), classifier_(std::move(classifier)) {}
  virtual ~ImageEncoder() = default;
  ImageEncoder(const ImageEncoder&) = delete;
  ImageEncoder& operator=(const ImageEncoder&) = delete;

  const ImageEncoderInfo& info() const { return info_; }
  // Of the model's own classifier; empty unless it was asked for.
  const ImageClassifier& classifier() const { return classifier_; }

  // pixels u8 [B, height, width, 3], R, G, B, on the device -> what the last layer gives, before any norm of the whole:
  // floating, [B, tokens, H] of transformers, [B, C, h, w] of convolutional networks.
  virtual at::Tensor Hidden(const at::Tensor& pixels) const = 0;
  // hidden -> f32 [B, dimensions], not normalised.
  virtual at::Tensor Pool(const at::Tensor& hidden) const = 0;

  at::Tensor Forward(const at::Tensor& pixels) const { return Pool(Hidden(pixels)); }

 private:
  const ImageEncoderInfo info_;
  const ImageClassifier classifier_;
};

}  // namespace tributary
