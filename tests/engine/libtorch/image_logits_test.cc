// The network itself against the PyTorch original: logits, before ConSE hides small differences.
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/efficientnet_lite0.h"
#include "tests/engine/libtorch/image_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("Logits in fp32 are within 1e-3 of the PyTorch original on real photos, from the JPEG file on") {
  InitTorchThread();
  const auto weights = SafetensorsWeights::OpenFolder(TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0");
  REQUIRE(weights.ok());
  const auto model = GuardTorch([&] { return EfficientNetLite0::Load(*weights, ComputeType::kFp32, {}); });
  REQUIRE(model.ok());
  for (const std::string name : {"cat", "coffee", "rocket", "astronaut"}) {
    CAPTURE(name);
    PixelBlock photo = PreparedGolden("photo_" + name + ".jpg");
    const std::string bytes = ReadGolden("photo_" + name + ".logits.f32");
    std::vector<float> expected(bytes.size() / sizeof(float));
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    float largest = 0;
    const auto status = GuardTorch([&] {
      const at::Tensor image = at::from_blob(photo.rgb.data(), {1, 224, 224, 3}, at::kByte);
      const at::Tensor logits = model->Forward(image);
      const at::Tensor reference = at::from_blob(expected.data(), {1, 1000}, at::kFloat);
      largest = (logits - reference).abs().max().item<float>();
      return absl::OkStatus();
    });
    REQUIRE(status.ok());
    CHECK(largest < 1e-3f);
  }
}

}  // namespace
}  // namespace tributary
