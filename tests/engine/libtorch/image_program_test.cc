// The default image model against the PyTorch original on the same weights, from the file to the vector.
#include "engine/libtorch/encode/image_program.h"

#include <cstring>

#include "engine/libtorch/device/torch_thread.h"
#include "tests/engine/libtorch/image_batch.h"
#include "tests/engine/libtorch/image_family_goldens.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

const std::vector<std::string> kPhotos = {"cat", "coffee", "rocket", "astronaut"};
constexpr const char* kFolder = TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0";

LoadedImageProgram Load(const std::string& dtype) {
  InitTorchThread();
  const LabelVectors labels = StandInLabels();
  auto loaded = LoadImageProgram(kFolder, {}, {.dtype = dtype}, &labels);
  INFO(loaded.status().ToString());
  REQUIRE(loaded.ok());
  return *std::move(loaded);
}

std::vector<float> GoldenVector(const std::string& name) {
  const std::string bytes = ReadGolden(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<PixelBlock> Photos() {
  std::vector<PixelBlock> photos;
  for (const std::string& name : kPhotos) photos.push_back(PreparedGolden("photo_" + name + ".jpg"));
  return photos;
}

TEST_CASE("A photo's vector in fp32 equals PyTorch's logits put through ConSE") {
  const LoadedImageProgram loaded = Load("fp32");
  CHECK(loaded.compute_type == ComputeType::kFp32);
  CHECK(loaded.image_width == 224);
  CHECK(loaded.image_height == 224);
  CHECK(loaded.parameter_count == 4652008);  // sum over model.parameters() of the original
  CHECK(loaded.revision.size() == 16);
  const auto vectors = RunBatch(*loaded.program, ImageBatch(Photos()));
  REQUIRE(vectors.ok());
  for (size_t i = 0; i < kPhotos.size(); ++i) {
    CAPTURE(kPhotos[i]);
    CHECK(Cosine(vectors->vectors[i], GoldenVector("photo_" + kPhotos[i] + ".conse.f32")) >= 0.99999);
  }
}

TEST_CASE("A photo's vector in bf16 equals the fp32 one to a cosine of 0.999") {
  InitTorchThread();
  const LabelVectors labels = StandInLabels();
  const auto loaded = LoadImageProgram(kFolder, {}, {.dtype = "bf16"}, &labels);
  if (!loaded.ok()) {  // a processor without any bf16 products says so
    CHECK(std::string(loaded.status().message()).find("needs a processor with") != std::string::npos);
    return;
  }
  CHECK(loaded->compute_type == ComputeType::kBf16);
  const auto vectors = RunBatch(*loaded->program, ImageBatch(Photos()));
  REQUIRE(vectors.ok());
  for (size_t i = 0; i < kPhotos.size(); ++i) {
    CAPTURE(kPhotos[i]);
    CHECK(Cosine(vectors->vectors[i], GoldenVector("photo_" + kPhotos[i] + ".conse.f32")) >= 0.999);
  }
}

TEST_CASE("An encoder made of convolutions is refused in int8") {
  InitTorchThread();
  const LabelVectors labels = StandInLabels();
  const auto loaded = LoadImageProgram(kFolder, {}, {.dtype = "int8"}, &labels);
  CHECK(loaded.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(loaded.status().message()).find("image.dtype int8 needs an image encoder made of linear layers") !=
        std::string::npos);
}

TEST_CASE("A photo's vector does not depend on the photos beside it, nor on its place") {
  const LoadedImageProgram loaded = Load("fp32");
  const std::vector<PixelBlock> photos = Photos();
  std::vector<std::vector<float>> alone;
  for (const PixelBlock& photo : photos)
    alone.push_back(RunBatch(*loaded.program, ImageBatch({photo})).value().vectors[0]);
  for (size_t first = 0; first < photos.size(); ++first) {
    std::vector<PixelBlock> batch;
    for (size_t i = 0; i < photos.size(); ++i) batch.push_back(photos[(first + i) % photos.size()]);
    const auto together = RunBatch(*loaded.program, ImageBatch(batch));
    REQUIRE(together.ok());
    for (size_t i = 0; i < photos.size(); ++i) {
      CHECK(Cosine(together->vectors[i], alone[(first + i) % photos.size()]) >= 0.9999);
    }
  }
}

TEST_CASE("Stage counts the pixels, fills only its images' part of the slot and refuses what does not fit") {
  InitTorchThread();
  const LabelVectors labels = StandInLabels();
  const auto loaded = LoadImageProgram(kFolder, {}, {.dtype = "fp32", .max_batch_items = 2}, &labels);
  REQUIRE(loaded.ok());
  const BatchProgram& program = *loaded->program;
  CHECK(program.MaxBatchItems() == 2);
  CHECK(program.MaxBatchUnits() == 2 * 50176);
  CHECK(program.MaxInputBytes() == 2 * 150528);
  CHECK(program.OutputDimension() == 384);

  const PixelBlock photo = PreparedGolden("photo_cat.jpg");
  std::vector<std::byte> slot(program.MaxInputBytes(), std::byte{7});
  const auto staged = program.Stage(ImageBatch({photo}), slot);
  REQUIRE(staged.ok());
  CHECK(staged->batch_size == 1);
  CHECK(staged->computed_units == 50176);
  CHECK(staged->input_bytes == 150528);
  CHECK(std::memcmp(slot.data(), photo.rgb.data(), 150528) == 0);
  CHECK(slot[150528] == std::byte{7});

  CHECK_FALSE(program.Stage(ImageBatch({photo, photo, photo}), slot).ok());
  CHECK_FALSE(program.Stage(ImageBatch({photo}), std::span(slot).first(1000)).ok());
  CHECK_FALSE(program.Stage(ImageBatch({PixelBlock{.rgb = {1, 2, 3}, .width = 1, .height = 1}}), slot).ok());
}

TEST_CASE("A folder, labels or options that cannot serve are refused by name") {
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  const LabelVectors labels = StandInLabels();
  LabelVectors few = labels;
  few.classes = 10;
  few.values.resize(10 * 384);
  CHECK(message(LoadImageProgram(kFolder, {}, {}, &few)) ==
        "image.labels must name the 1000 classes of the encoder, it names 10");
  CHECK(message(LoadImageProgram(kFolder, {}, {.top_classes = 0}, &labels)) ==
        "image.top_classes must be 1 to 1000, is 0");
  CHECK(message(LoadImageProgram(kFolder, {}, {.dtype = "int4"}, &labels)).find("int4") != std::string::npos);
  const std::string text_model = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";
  CHECK(message(LoadImageProgram(text_model, {}, {.dtype = "fp32"}, &labels)).find("model_type 'bert' is not one of") !=
        std::string::npos);
  CHECK_FALSE(LoadImageProgram("/nonexistent", {}, {.dtype = "fp32"}, &labels).ok());
  const ImageFamilyGolden clip = LoadImageFamilyGolden("clip");
  CHECK(message(LoadImageProgram(clip.folder, clip.preprocessing, {.dtype = "fp32"}, &labels))
            .find("config.json: the model has no classifier over its vectors") != std::string::npos);
}

TEST_CASE("Without labels a vector is the encoder's own; a batch larger than a slice gives every image its vector") {
  InitTorchThread();
  const ImageFamilyGolden golden = LoadImageFamilyGolden("vit-classifier");  // 32 wide, 24 high
  constexpr size_t kImages = 11;
  const auto loaded =
      LoadImageProgram(golden.folder, golden.preprocessing, {.dtype = "fp32", .max_batch_items = kImages});
  REQUIRE(loaded.ok());
  CHECK(loaded->image_width == 32);
  CHECK(loaded->image_height == 24);
  CHECK(loaded->program->MaxBatchUnits() == kImages * 32 * 24);
  std::vector<PixelBlock> images;
  for (size_t i = 0; i < kImages; ++i) {
    images.push_back({.rgb = golden.pixels[i % golden.pixels.size()], .width = 32, .height = 24});
  }
  const auto run = RunBatch(*loaded->program, ImageBatch(images));
  REQUIRE(run.ok());
  for (size_t i = 0; i < kImages; ++i) {
    CAPTURE(i);
    CHECK(LargestDifference(run->vectors[i], golden.vectors[i % golden.vectors.size()]) <= 1e-4);
  }
  // The same number of bytes, lying down.
  const PixelBlock turned{.rgb = golden.pixels[0], .width = 24, .height = 32};
  std::vector<std::byte> slot(loaded->program->MaxInputBytes());
  CHECK_FALSE(loaded->program->Stage(ImageBatch({turned}), slot).ok());
}

}  // namespace
}  // namespace tributary
