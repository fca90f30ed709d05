// What preprocessor_config.json may say: defaults, and what is refused.
#include "engine/prepare/image/preprocessor_config.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

absl::StatusOr<ImagePreprocessing> ReadConfig(const std::string& json) {
  const TemporaryFolder folder;
  folder.Write("preprocessor_config.json", json);
  return ReadPreprocessorConfig(folder.path());
}

void RequireRefused(const absl::StatusOr<ImagePreprocessing>& read, const std::string& reason,
                    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  INFO(read.status().ToString());
  CHECK(read.status().code() == code);
  CHECK(std::string(read.status().message()).find(reason) != std::string::npos);
}

TEST_CASE("A file that only names its processor has that processor's defaults") {
  const auto clip = ReadConfig(R"({"image_processor_type": "CLIPImageProcessor"})");
  REQUIRE(clip.ok());
  CHECK(clip->width == 224);
  CHECK(clip->resize.mode == ResizeMode::kShortestEdge);
  CHECK(clip->resize.edge == 224);
  CHECK(clip->resize.filter == ResizeFilter::kBicubic);
  CHECK(clip->transparency == Transparency::kOnWhite);
  CHECK(clip->pixels.scale[2] == Approx(1 / 255.0 / 0.27577711));
  CHECK(clip->pixels.shift[2] == Approx(-0.40821073 / 0.27577711));

  const auto siglip = ReadConfig(R"({"image_processor_type": "SiglipImageProcessorFast"})");
  REQUIRE(siglip.ok());
  CHECK(siglip->resize.mode == ResizeMode::kExact);
  CHECK(siglip->height == 224);
  CHECK(siglip->pixels.scale[0] == Approx(2 / 255.0));

  const auto vit = ReadConfig(R"({"image_processor_type": "ViTImageProcessor", "size": null, "do_resize": null})");
  REQUIRE(vit.ok());
  CHECK(vit->resize.filter == ResizeFilter::kBilinear);
  CHECK(vit->resize.width == 224);
  CHECK(vit->transparency == Transparency::kIgnore);

  const auto convnext = ReadConfig(R"({"image_processor_type": "ConvNextImageProcessor"})");
  REQUIRE(convnext.ok());
  CHECK(convnext->resize.mode == ResizeMode::kExact);
  CHECK(convnext->width == 384);

  const auto efficientnet = ReadConfig(R"({"image_processor_type": "EfficientNetImageProcessor"})");
  REQUIRE(efficientnet.ok());
  CHECK(efficientnet->width == 346);
  CHECK(efficientnet->pixels.scale[0] == Approx(4 / 255.0));
}

TEST_CASE("processor_config.json goes before preprocessor_config.json where it has an image_processor") {
  const TemporaryFolder folder;
  folder.Write("preprocessor_config.json", R"({"image_processor_type": "SiglipImageProcessor", "size": [10, 12]})");
  folder.Write("processor_config.json", R"({"processor_class": "CLIPProcessor"})");
  REQUIRE(ReadPreprocessorConfig(folder.path()).ok());
  CHECK(ReadPreprocessorConfig(folder.path())->width == 12);
  folder.Write("processor_config.json",
               R"({"image_processor": {"image_processor_type": "SiglipImageProcessor", "size": [30, 32]}})");
  REQUIRE(ReadPreprocessorConfig(folder.path()).ok());
  CHECK(ReadPreprocessorConfig(folder.path())->width == 32);
}

TEST_CASE("What leaves pictures of different sizes is refused") {
  RequireRefused(
      ReadConfig(R"({"image_processor_type": "CLIPImageProcessor", "do_center_crop": false})"),
      "preprocessor_config.json: size.shortest_edge without do_center_crop leaves pictures of different sizes");
  RequireRefused(ReadConfig(R"({"image_processor_type": "ViTImageProcessor", "do_resize": false})"),
                 "do_resize false without do_center_crop");
  RequireRefused(ReadConfig(R"({"image_processor_type": "ViTImageProcessor", "size": {"longest_edge": 224}})"),
                 "size.longest_edge is not supported");
  RequireRefused(
      ReadConfig(R"({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 9, "longest_edge": 22}})"),
      "size.longest_edge is not supported");
  RequireRefused(ReadConfig(R"({"image_processor_type": "Siglip2ImageProcessor"})"), "NaFlex");
  RequireRefused(ReadConfig(R"({"image_processor_type": "ViTImageProcessor", "do_pad": true})"), "do_pad");
}

TEST_CASE("A processor that is not known is refused by name, and a missing one by what was looked at") {
  RequireRefused(ReadConfig(R"({"image_processor_type": "DonutImageProcessor"})"),
                 "image_processor_type 'DonutImageProcessor' is not supported (CLIPImageProcessor, ");
  RequireRefused(ReadConfig("{}"), "image_processor_type is missing, and config.json's model_type ''");
  const TemporaryFolder folder;
  folder.Write("preprocessor_config.json", "{}");
  folder.Write("config.json", R"({"model_type": "donut"})");
  RequireRefused(ReadPreprocessorConfig(folder.path()), "model_type 'donut'");
}

TEST_CASE("A folder without either file, and one with a broken file, say so") {
  RequireRefused(ReadPreprocessorConfig(TemporaryFolder().path()), "preprocessor_config.json is missing",
                 absl::StatusCode::kNotFound);
  RequireRefused(ReadConfig("{\"size\": "), "preprocessor_config.json is not valid JSON");
  RequireRefused(ReadConfig("{\"size\": " + std::string(300000, '[') + std::string(300000, ']') + "}"), "JSON deeper");
  RequireRefused(ReadConfig(R"({"image_processor_type": "CLIPImageProcessor", "size": 256, "crop_size": 2049})"),
                 "pictures of 2049 x 2049 = 4198401 pixels, the limit is 4194304");
  RequireRefused(ReadConfig("[]"), "is no JSON object");
  const TemporaryFolder folder;
  folder.Write("processor_config.json", R"({"image_processor": 3})");
  RequireRefused(ReadPreprocessorConfig(folder.path()), "image_processor is no object");
}

TEST_CASE("Values of the wrong kind or out of range are refused by key, with the value") {
  const auto vit = [](const std::string& key, const std::string& value) {
    return ReadConfig(R"({"image_processor_type": "ViTImageProcessor", ")" + key + "\": " + value + "}");
  };
  RequireRefused(vit("size", "0"), "size must be a whole number from 1 to 8192, is 0");
  RequireRefused(vit("size", "-3"), "is -3");
  RequireRefused(vit("size", "1e300"), "is 1e+300");
  RequireRefused(vit("size", R"({"height": 8193, "width": 3})"), "size.height must be");
  RequireRefused(vit("size", R"({"height": 3})"), "size must have height and width, or shortest_edge");
  RequireRefused(vit("size", "\"224\""), "size must be");
  RequireRefused(vit("resample", "6"), "resample must be one of Pillow's filters, 0 to 5, is 6");
  RequireRefused(vit("resample", "\"bicubic\""), "resample must be");
  RequireRefused(vit("do_resize", "1"), "do_resize must be true or false, is 1");
  RequireRefused(vit("image_mean", "[0.5, 0.5]"), "image_mean must be a number or a list of three");
  RequireRefused(vit("image_std", "[0.5, 0, 0.5]"), "image_std must not be zero");
  RequireRefused(vit("rescale_factor", "1e300"), "leave the range of a float");
  RequireRefused(vit("crop_size", "{}"), "crop_size must have");
  RequireRefused(vit("image_processor_type", "7"), "image_processor_type must be a string");
  const auto convnext = [](const std::string& rest) {
    return ReadConfig(R"({"image_processor_type": "ConvNextImageProcessor", "size": 224, )" + rest + "}");
  };
  RequireRefused(convnext(R"("crop_pct": 0)"), "crop_pct must be above 0");
  RequireRefused(convnext(R"("crop_pct": 1.5)"), "crop_pct must be above 0");
  RequireRefused(convnext(R"("do_center_crop": true)"), "do_center_crop true is not supported");
  RequireRefused(ReadConfig(R"({"image_processor_type": "ConvNextImageProcessor", "size": [224, 224]})"),
                 "size must be a shortest_edge");
}

}  // namespace
}  // namespace tributary
