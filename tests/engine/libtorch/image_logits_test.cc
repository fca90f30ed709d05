// EfficientNet-Lite0 itself against the PyTorch original: logits, before ConSE hides small differences.
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <filesystem>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/encode/image_families.h"
#include "engine/libtorch/weights/safetensors.h"
#include "tests/engine/libtorch/family_goldens.h"
#include "tests/engine/libtorch/image_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

constexpr const char* kLite0 = TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0";

void CheckLogits(const std::string& folder) {
  InitTorchThread();
  const auto weights = SafetensorsWeights::OpenFolder(folder);
  REQUIRE(weights.ok());
  const auto model = GuardTorch([&] { return LoadImageEncoder(folder, *weights, {.classifier = true}); });
  CAPTURE(std::string(model.status().message()));
  REQUIRE(model.ok());
  CHECK((*model)->info().parameter_count == 4652008);  // sum over model.parameters() of the original
  for (const std::string name : {"cat", "coffee", "rocket", "astronaut"}) {
    CAPTURE(name);
    PixelBlock photo = PreparedGolden("photo_" + name + ".jpg");
    const std::string bytes = ReadGolden("photo_" + name + ".logits.f32");
    std::vector<float> expected(bytes.size() / sizeof(float));
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    float largest = 0;
    const auto status = GuardTorch([&] {
      const at::Tensor image = at::from_blob(photo.rgb.data(), {1, 224, 224, 3}, at::kByte);
      const at::Tensor logits = (*model)->classifier().Forward((*model)->Forward(image));
      const at::Tensor reference = at::from_blob(expected.data(), {1, 1000}, at::kFloat);
      largest = (logits - reference).abs().max().item<float>();
      return absl::OkStatus();
    });
    REQUIRE(status.ok());
    CHECK(largest < 1e-3f);
  }
}

// timm's name of a tensor of the PyPI package. Blocks are numbered through there, by stage and place in timm.
std::string TimmName(const std::string& name) {
  static const std::pair<std::string, std::string> kParts[] = {{"_conv_stem.", "conv_stem."},
                                                               {"_bn0.", "bn1."},
                                                               {"_conv_head.", "conv_head."},
                                                               {"_bn1.", "bn2."},
                                                               {"_fc.", "classifier."}};
  for (const auto& [ours, timms] : kParts) {
    if (name.starts_with(ours)) return timms + name.substr(ours.size());
  }
  constexpr size_t kDepths[] = {1, 2, 2, 3, 3, 4, 1};
  size_t block = std::stoul(name.substr(std::string("_blocks.").size()));
  size_t stage = 0;
  while (block >= kDepths[stage]) block -= kDepths[stage++];
  const std::string rest = name.substr(name.find("._") + 1);
  const std::string prefix = "blocks." + std::to_string(stage) + "." + std::to_string(block) + ".";
  static const std::pair<std::string, std::string> kFirst[] = {
      {"_depthwise_conv", "conv_dw"}, {"_bn1", "bn1"}, {"_project_conv", "conv_pw"}, {"_bn2", "bn2"}};
  static const std::pair<std::string, std::string> kOthers[] = {{"_expand_conv", "conv_pw"},    {"_bn0", "bn1"},
                                                                {"_depthwise_conv", "conv_dw"}, {"_bn1", "bn2"},
                                                                {"_project_conv", "conv_pwl"},  {"_bn2", "bn3"}};
  const auto rename = [&](const auto& parts) {
    for (const auto& [ours, timms] : parts) {
      if (rest.starts_with(ours)) return prefix + timms + rest.substr(ours.size());
    }
    return "unknown: " + name;
  };
  return stage == 0 ? rename(kFirst) : rename(kOthers);
}

TEST_CASE("Logits in fp32 are within 1e-3 of the PyTorch original on real photos, from the JPEG file on") {
  CheckLogits(kLite0);
}

TEST_CASE("The same weights under timm's names, in a folder as timm writes it, are the same model") {
  const TemporaryFolder folder;
  folder.Write("config.json", R"({"architecture":"tf_efficientnet_lite0","num_classes":1000,"num_features":1280,
      "pretrained_cfg":{"input_size":[3,224,224]}})");
  std::filesystem::copy(std::string(kLite0) + "/model.safetensors", folder.File("model.safetensors"));
  RewriteTensors(folder, "model.safetensors", [](nlohmann::json& header, std::string&) {
    nlohmann::json renamed = nlohmann::json::object();
    for (const auto& [name, entry] : header.items()) renamed[name == "__metadata__" ? name : TimmName(name)] = entry;
    header = renamed;
  });
  CheckLogits(folder.path());
}

}  // namespace
}  // namespace tributary
