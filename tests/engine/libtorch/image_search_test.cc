// The default models together: photos and captions in one space, as the quickstart shows them.
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/image_program.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/prepare/text/text_preparer.h"
#include "tests/engine/libtorch/image_batch.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

constexpr const char* kTextFolder = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";

// Sentences one by one: the model's own vectors.
absl::StatusOr<std::vector<std::vector<float>>> EmbedTexts(const BatchProgram& program, const TextPreparer& preparer,
                                                           const std::vector<std::string>& sentences) {
  std::vector<std::vector<float>> vectors;
  for (const std::string& sentence : sentences) {
    TextInput input;
    input.text = sentence;
    auto tokens = preparer.Prepare(input, Truncation::kEnd);
    if (!tokens.ok()) return tokens.status();
    auto run = RunBatch(program, TextBatch({tokens->ids}));
    if (!run.ok()) return run.status();
    vectors.push_back(std::move(run->vectors[0]));
  }
  return vectors;
}

TEST_CASE("Each photo is nearest to its own caption, the cat at about 0.57") {
  InitTorchThread();
  const auto folder = ReadTextModelFolder(kTextFolder);
  REQUIRE(folder.ok());
  TextProgramOptions text_options;
  text_options.dtype = "fp32";
  const auto text = LoadTextProgram(*folder, text_options);
  REQUIRE(text.ok());
  const auto preparer = LoadTextPreparer(kTextFolder, 0);
  REQUIRE(preparer.ok());
  const auto embed = [&](const std::vector<std::string>& sentences) {
    return EmbedTexts(*text->program, **preparer, sentences);
  };
  const auto sentences =
      ReadLabelSentences(TRIBUTARY_SOURCE_DIR "/config/imagenet-1k-labels.txt", "a photo of a {name}");
  REQUIRE(sentences.ok());
  const auto labels = LoadOrComputeLabelVectors(*sentences, text->revision, "", embed);
  REQUIRE(labels.ok());
  const auto image = LoadImageProgram(TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0", {}, {.dtype = "fp32"}, &*labels);
  REQUIRE(image.ok());

  const auto captions = embed({"a cat looking at the camera", "a cup of espresso", "a rocket on its launch pad"});
  REQUIRE(captions.ok());
  const auto photos =
      RunBatch(*image->program, ImageBatch({PreparedGolden("photo_cat.jpg"), PreparedGolden("photo_coffee.jpg"),
                                            PreparedGolden("photo_rocket.jpg")}));
  REQUIRE(photos.ok());
  for (size_t photo = 0; photo < 3; ++photo) {
    for (size_t caption = 0; caption < 3; ++caption) {
      CAPTURE(photo, caption);
      const double own = Cosine(photos->vectors[photo], (*captions)[photo]);
      const double other = Cosine(photos->vectors[photo], (*captions)[caption]);
      CHECK((photo == caption || own > other + 0.05));
    }
  }
  // Design: tried in Python on the full-size photo; this one was scaled down and compressed again.
  CHECK(Cosine(photos->vectors[0], (*captions)[0]) == Approx(0.57).margin(0.06));
}

}  // namespace
}  // namespace tributary
