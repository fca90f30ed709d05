// Every image encoder family against its reference.
#include "engine/libtorch/encode/image_families.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <set>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/compute_type.h"
#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/weights/safetensors.h"
#include "tests/engine/libtorch/image_family_goldens.h"
#include "tests/engine/libtorch/run_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

using Rows = std::vector<std::vector<float>>;

struct ImageRun {
  ImageEncoderInfo info;
  Rows hidden;
  Rows vectors;
  Rows logits;
};

Rows RowsOf(const at::Tensor& tensor) {
  const at::Tensor exact = tensor.to(at::kFloat).contiguous();
  const float* const data = exact.const_data_ptr<float>();
  return Split(std::vector<float>(data, data + exact.numel()), static_cast<size_t>(exact.size(0)));
}

// All images in one batch.
absl::StatusOr<ImageRun> RunImages(const std::string& folder, const ImagePreprocessing& preprocessing,
                                   const std::vector<std::vector<uint8_t>>& images, ComputeType type,
                                   bool classifier = false) {
  InitTorchThread();
  auto weights = SafetensorsWeights::OpenFolder(folder);
  if (!weights.ok()) return weights.status();
  return GuardTorch([&]() -> absl::StatusOr<ImageRun> {
    auto encoder =
        LoadImageEncoder(folder, *weights, {.preprocessing = preprocessing, .type = type, .classifier = classifier});
    if (!encoder.ok()) return encoder.status();
    std::vector<uint8_t> bytes;
    for (const auto& image : images) bytes.insert(bytes.end(), image.begin(), image.end());
    const at::Tensor pixels = at::from_blob(
        bytes.data(),
        {static_cast<int64_t>(images.size()), int64_t{preprocessing.height}, int64_t{preprocessing.width}, 3},
        at::kByte);
    const at::Tensor hidden = (*encoder)->Hidden(pixels);
    const at::Tensor pooled = (*encoder)->Pool(hidden);
    ImageRun run{.info = (*encoder)->info(), .hidden = RowsOf(hidden), .vectors = RowsOf(pooled), .logits = {}};
    if (classifier) run.logits = RowsOf((*encoder)->classifier().Forward(pooled));
    return run;
  });
}

void CheckFp32(const Rows& actual, const Rows& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(LargestDifference(actual[i], expected[i]) <= 1e-4);
    CHECK(Cosine(actual[i], expected[i]) >= 0.99999);
  }
}

TEST_CASE("Every model_type of the image registry has a golden, and every golden is in it") {
  // These cannot be tiny: image_logits_test has the one whose weights can be had, on photos.
  std::set<std::string> golden = {"efficientnet_lite0",    "tf_efficientnet_lite0", "tf_efficientnet_lite1",
                                  "tf_efficientnet_lite2", "tf_efficientnet_lite3", "tf_efficientnet_lite4"};
  std::set<std::string> listed;
  for (const ImageFamily& family : ImageFamilies()) CHECK(listed.emplace(family.model_type).second);
  for (const std::string& name : ImageFamilyGoldenNames()) {
    CAPTURE(name);
    const std::string folder = LoadImageFamilyGolden(name).folder;
    const auto weights = SafetensorsWeights::OpenFolder(folder);
    REQUIRE(weights.ok());
    const auto family = ImageFamilyOf(folder, *weights);
    REQUIRE(family.ok());
    golden.emplace((*family)->model_type);
  }
  CHECK(listed == golden);
}

TEST_CASE("Every image family's hidden states, vectors and logits equal its reference's in fp32") {
  for (const std::string& name : ImageFamilyGoldenNames()) {
    CAPTURE(name);
    const ImageFamilyGolden golden = LoadImageFamilyGolden(name);
    const auto run =
        RunImages(golden.folder, golden.preprocessing, golden.pixels, ComputeType::kFp32, !golden.logits.empty());
    CAPTURE(std::string(run.status().message()));
    REQUIRE(run.ok());
    CHECK(run->info.dimensions == static_cast<int64_t>(golden.vectors[0].size()));
    CheckFp32(run->hidden, golden.hidden);
    CheckFp32(run->vectors, golden.vectors);
    if (!golden.logits.empty()) CheckFp32(run->logits, golden.logits);
  }
}

TEST_CASE("Every image family's vectors in bf16 equal its reference's to a cosine of 0.999") {
  if (!ResolveComputeType("bf16", {}).ok()) return;  // a processor without any bf16 products
  for (const std::string& name : ImageFamilyGoldenNames()) {
    const ImageFamilyGolden golden = LoadImageFamilyGolden(name);
    const auto run = RunImages(golden.folder, golden.preprocessing, golden.pixels, ComputeType::kBf16);
    CAPTURE(name, std::string(run.status().message()));
    REQUIRE(run.ok());
    for (size_t i = 0; i < golden.vectors.size(); ++i) CHECK(Cosine(run->vectors[i], golden.vectors[i]) >= 0.999);
  }
}

TEST_CASE("An image of every family is the same alone as among others, and in any place") {
  for (const std::string& name : ImageFamilyGoldenNames()) {
    const ImageFamilyGolden golden = LoadImageFamilyGolden(name);
    std::vector<std::vector<uint8_t>> images = golden.pixels;
    images.insert(images.end(), golden.pixels.rbegin(), golden.pixels.rend());
    const auto together = RunImages(golden.folder, golden.preprocessing, images, ComputeType::kFp32);
    REQUIRE(together.ok());
    for (size_t i = 0; i < images.size(); ++i) {
      CAPTURE(name, i);
      const auto alone = RunImages(golden.folder, golden.preprocessing, {images[i]}, ComputeType::kFp32);
      REQUIRE(alone.ok());
      // Rounding alone: other blocks of the products.
      CHECK(LargestDifference(alone->vectors[0], together->vectors[i]) <= 2e-5);
    }
  }
}

TEST_CASE("The layouts that the hub's folders have mean the same model") {
  const ImageFamilyGolden golden = LoadImageFamilyGolden("clip");
  const auto vectors_of = [&](const FamilyCopy& copy) {
    const auto run = RunImages(copy.path(), golden.preprocessing, golden.pixels, ComputeType::kFp32);
    CAPTURE(std::string(run.status().message()));
    REQUIRE(run.ok());
    return run->vectors;
  };

  const FamilyCopy prefixed = ImageFamilyCopy("clip");
  prefixed.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string&) {
    nlohmann::json renamed = nlohmann::json::object();
    for (const auto& [name, entry] : header.items()) renamed[name == "__metadata__" ? name : "model." + name] = entry;
    header = renamed;
  });
  CheckFp32(vectors_of(prefixed), golden.vectors);

  // As LAION's and OpenAI's older files have it.
  const FamilyCopy older = ImageFamilyCopy("clip");
  const auto config = nlohmann::json::parse(ReadFile(older.File("config.json")));
  older.PatchConfig({{"vision_config_dict", config.at("vision_config")},
                     {"vision_config", {{"hidden_size", 64}, {"layer_norm_eps", 0.5}}}});
  CheckFp32(vectors_of(older), golden.vectors);
}

}  // namespace
}  // namespace tributary
