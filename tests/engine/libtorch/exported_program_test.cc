// Exported TorchScript models against what PyTorch makes of the same inputs, and exports that are wrong.
#include "engine/libtorch/exported/exported_program.h"

#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/libtorch/device/torch_thread.h"
#include "tests/engine/libtorch/exported_goldens.h"
#include "tests/engine/libtorch/run_batch.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-5;  // fp32, another order of sums

absl::StatusOr<LoadedTextProgram> LoadText(const std::string& folder, ExportedProgramOptions options = {}) {
  InitTorchThread();
  auto text = ReadExportedTextFolder(folder);
  if (!text.ok()) return text.status();
  return LoadExportedText(folder, *text, options);
}

absl::StatusOr<LoadedExportedImage> LoadImage(const std::string& folder, ExportedProgramOptions options = {}) {
  InitTorchThread();
  return LoadExportedImage(folder, options);
}

std::string TextError(const std::string& folder, ExportedProgramOptions options = {}) {
  const auto loaded = LoadText(folder, std::move(options));
  return loaded.ok() ? "OK" : std::string(loaded.status().message());
}

std::string ImageError(const std::string& folder, ExportedProgramOptions options = {}) {
  const auto loaded = LoadImage(folder, std::move(options));
  return loaded.ok() ? "OK" : std::string(loaded.status().message());
}

void CheckNear(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - expected[i]) <= kTolerance);
  }
}

struct TextGoldens {
  json document = ReadJson(ExportedGolden("text/golden.json"));
  std::vector<TokenIds> ids = document.at("ids");
  std::vector<std::vector<float>> Pooled(const char* mode) const { return document.at(mode); }
};

Batch Pixels(size_t images, size_t side) {
  Batch batch;
  batch.modality = Modality::kImage;
  for (size_t n = 0; n < images; ++n) {
    auto item = std::make_unique<WorkItem>(nullptr);
    PixelBlock block;
    block.width = block.height = static_cast<uint32_t>(side);
    for (size_t i = 0; i < side * side * 3; ++i) block.rgb.push_back(static_cast<uint8_t>((i + n) * 97 % 251));
    item->units = side * side;
    item->prepared = std::move(block);
    batch.useful_units += item->units;
    batch.items.push_back(std::move(item));
  }
  return batch;
}

TEST_CASE("A TorchScript text model gives PyTorch's vectors, whatever shares the batch") {
  const auto loaded = LoadText(ExportedGolden("text"));
  CAPTURE(std::string(loaded.status().message()));
  REQUIRE(loaded.ok());
  const BatchProgram& program = *loaded->program;
  CHECK(program.OutputDimension() == 8);
  CHECK(program.MaxBatchUnits() == 512);
  CHECK(program.MaxBatchItems() == 16);  // the manifest's
  CHECK(loaded->max_tokens == 64);
  CHECK(loaded->vocabulary_size == 32);
  CHECK(loaded->parameter_count == 920);
  CHECK(loaded->revision.size() == 16);
  const TextGoldens goldens;
  const auto expected = goldens.Pooled("mean");

  const auto together = RunBatch(program, TextBatch(goldens.ids));

  REQUIRE(together.ok());
  size_t useful = 0;
  for (const TokenIds& ids : goldens.ids) useful += ids.size();
  CHECK(together->computed_units >= useful);
  CHECK(together->computed_units < useful * 3 / 2);
  for (size_t i = 0; i < goldens.ids.size(); ++i) {
    CAPTURE(goldens.ids[i].size());
    CheckNear(together->vectors[i], expected[i]);
    const auto alone = RunBatch(program, TextBatch({goldens.ids[i]}));
    REQUIRE(alone.ok());
    CheckNear(alone->vectors[0], expected[i]);
  }
}

TEST_CASE(
    "Token states are pooled as the manifest says; vectors, dictionaries and int32 inputs are taken as they are") {
  const TextGoldens goldens;
  const auto check = [&](const ExportedCopy& copy, const char* mode) {
    CAPTURE(mode);
    const auto loaded = LoadText(copy.path());
    CAPTURE(std::string(loaded.status().message()));
    REQUIRE(loaded.ok());
    const auto run = RunBatch(*loaded->program, TextBatch(goldens.ids));
    REQUIRE(run.ok());
    const auto expected = goldens.Pooled(mode);
    for (size_t i = 0; i < expected.size(); ++i) CheckNear(run->vectors[i], expected[i]);
  };
  for (const char* mode : {"cls", "lasttoken", "max"}) {
    const ExportedCopy copy("text");
    check(copy.Patch({{"pooling", json::array({mode})}}), mode);
  }
  const ExportedCopy vectors("text");
  check(vectors.Patch({{"pooling", nullptr}, {"output", {{"holds", "vectors"}, {"index", 1}}}}), "mean");
  check(ExportedCopy("named"), "mean");
  const ExportedCopy narrow("text");
  json inputs = ReadJson(narrow.File("tributary.json")).at("inputs");
  for (json& input : inputs) input["dtype"] = "int32";
  check(narrow.Patch({{"inputs", inputs}}), "mean");
  // A module that takes at least two rows and eight tokens, as torch.export may leave it.
  const ExportedCopy padded("text");
  check(padded.Patch({{"batch", {{"min", 2}}}, {"length", {{"min", 8}}}}), "mean");
}

TEST_CASE("Random batches up to the limits fit their slot, and every text gets its own vector") {
  const auto loaded = LoadText(ExportedGolden("text"), {.max_batch_tokens = 200});
  REQUIRE(loaded.ok());
  const BatchProgram& program = *loaded->program;
  CHECK(program.MaxBatchUnits() == 200);
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<TokenIds> texts;
    size_t tokens = 0;
    while (texts.size() < 16) {
      const size_t longest = random() % 3 == 0 ? 64 : 9;
      TokenIds ids(1 + random() % longest);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % 32);
      if (tokens + ids.size() > 200 && !texts.empty()) break;
      tokens += ids.size();
      texts.push_back(std::move(ids));
    }
    const auto together = RunBatch(program, TextBatch(texts));
    CAPTURE(std::string(together.status().message()));
    REQUIRE(together.ok());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto alone = RunBatch(program, TextBatch({texts[i]}));
      REQUIRE(alone.ok());
      REQUIRE(Cosine(alone->vectors[0], together->vectors[i]) >= 0.99999);
    }
  }
}

TEST_CASE("Several lanes run one module at the same time and get the same vectors") {
  const auto loaded = LoadText(ExportedGolden("text"), {.lanes = 4});
  REQUIRE(loaded.ok());
  const TextGoldens goldens;
  const auto expected = RunBatch(*loaded->program, TextBatch(goldens.ids));
  REQUIRE(expected.ok());
  std::atomic<int> good{0};
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < 4; ++lane) {
    lanes.emplace_back([&] {
      InitTorchThread();
      for (int round = 0; round < 25; ++round) {
        const auto run = RunBatch(*loaded->program, TextBatch(goldens.ids));
        if (run.ok() && run->vectors == expected->vectors) ++good;
      }
    });
  }
  for (std::thread& lane : lanes) lane.join();
  CHECK(good == 100);
}

TEST_CASE("A TorchScript image model gives PyTorch's vector of the same bytes, alone and in a batch") {
  const auto loaded = LoadImage(ExportedGolden("image"));
  CAPTURE(std::string(loaded.status().message()));
  REQUIRE(loaded.ok());
  const BatchProgram& program = *loaded->loaded.program;
  CHECK(loaded->loaded.image_width == 16);
  CHECK(loaded->loaded.compute_type == ComputeType::kFp32);
  CHECK_FALSE(loaded->normalise);
  CHECK(program.MaxBatchUnits() == 4 * 16 * 16);
  const std::vector<float> expected = ReadJson(ExportedGolden("image/golden.json")).at("vector");

  const auto alone = RunBatch(program, Pixels(1, 16));
  const auto together = RunBatch(program, Pixels(4, 16));

  REQUIRE((alone.ok() && together.ok()));
  CheckNear(alone->vectors[0], expected);
  CheckNear(together->vectors[0], expected);
  CHECK(together->vectors[1] != together->vectors[0]);
  CHECK_FALSE(RunBatch(program, Pixels(1, 15)).ok());
}

TEST_CASE("A file that is no module, or is cut short, is an error with its path") {
  const ExportedCopy copy("text");
  const std::string whole = [&] {
    std::ifstream file(copy.File("model.pt"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    copy.Write("model.pt", std::string_view(whole).substr(0, bytes));
    for (const char* type : {"torchscript", "aoti"}) {
      CAPTURE(bytes, type);
      copy.Patch({{"module", {{"type", type}}}});
      CHECK_THAT(TextError(copy.path()), ContainsSubstring(copy.File("model.pt") + " does not load"));
    }
  }
  copy.Write("model.pt", whole);
  CHECK_THAT(TextError(copy.path()), ContainsSubstring("does not load"));  // TorchScript is no AOTInductor package
}

TEST_CASE("A text module that is not what its manifest says is an error that names what was found") {
  const auto error_of = [](const json& patch) {
    const ExportedCopy copy("text");
    copy.Patch(patch);
    return TextError(copy.path());
  };
  const json vectors = {{"pooling", nullptr}, {"output", {{"holds", "vectors"}}}};
  CHECK_THAT(error_of(vectors), ContainsSubstring("the output has the shape [1, 8, 8], expected is [1, 8]"));
  CHECK_THAT(error_of({{"output", {{"dimension", 9}}}}),
             ContainsSubstring("the output has the shape [1, 8, 8], expected is [1, 8, 9]"));
  CHECK_THAT(error_of({{"output", {{"index", 2}}}}), ContainsSubstring("output.index is 2, the module returns 2"));
  CHECK_THAT(error_of({{"output", {{"dtype", "float16"}}}}), ContainsSubstring("output.dtype says float16"));
  CHECK_THAT(error_of({{"output", {{"name", "x"}, {"index", nullptr}}}}), ContainsSubstring("not a dictionary"));
  CHECK_THAT(error_of({{"length", {{"max", 65}}}}), ContainsSubstring("a run of 1 texts of up to 65 tokens"));
  CHECK_THAT(error_of({{"vocabulary_size", 40}}), ContainsSubstring("does not do what"));
  json inputs = ReadJson(ExportedGolden("text/tributary.json")).at("inputs");
  inputs.erase(3);
  CHECK_THAT(error_of({{"inputs", inputs}}), ContainsSubstring("missing value for argument 'types'"));

  const ExportedCopy named("named");
  named.Patch({{"output", {{"name", "logits"}}}});
  CHECK_THAT(TextError(named.path()), ContainsSubstring("has no 'logits' (output.name)"));

  const ExportedCopy maskless("text");
  maskless.Replace("wrong/maskless.pt");
  inputs.erase(2);
  maskless.Patch(vectors).Patch({{"inputs", inputs}});
  CHECK_THAT(TextError(maskless.path()), ContainsSubstring("is the attention mask used"));
}

TEST_CASE("An image module that is not what its manifest says is an error that names what was found") {
  const auto error_of = [](const char* module, const json& patch = json::object()) {
    const ExportedCopy copy("image");
    copy.Replace(module);
    copy.Patch(patch);
    return ImageError(copy.path());
  };
  CHECK_THAT(error_of("wrong/static_batch.pt"), ContainsSubstring("a run of 1 images of 16 x 16 pixels"));
  CHECK_THAT(error_of("wrong/not_finite.pt"), ContainsSubstring("of the output is"));
  CHECK_THAT(error_of("wrong/half.pt"), ContainsSubstring("the output is Half, output.dtype says float32"));
  CHECK(error_of("wrong/half.pt", {{"output", {{"dtype", "float16"}}}}) == "OK");
  const json doubles = {{"inputs", json::array({{{"role", "pixels"}, {"dtype", "float16"}}})}};
  CHECK_THAT(error_of("image/model.pt", doubles), ContainsSubstring("does not do what"));
  CHECK_THAT(error_of("image/model.pt", {{"image", {{"layout", "nhwc"}}}}), ContainsSubstring("does not do what"));
  CHECK_THAT(TextError(ExportedGolden("image")), ContainsSubstring("kind is image, not text"));
  CHECK_THAT(ImageError(ExportedGolden("text")), ContainsSubstring("kind is text, not image"));
}

TEST_CASE("An export for another device or type than asked for is refused") {
  CHECK_THAT(ImageError(ExportedGolden("image"), {.dtype = "bf16"}),
             ContainsSubstring("exported in fp32, but dtype bf16 is asked for"));
  CHECK(ImageError(ExportedGolden("image"), {.dtype = "fp32"}) == "OK");
  const ExportedCopy cuda("image");
  cuda.Patch({{"module", {{"device", "cuda"}}}});
  CHECK_THAT(ImageError(cuda.path()), ContainsSubstring("exported for cuda, but the lanes run on cpu"));
}

// First without the library: once it is loaded its operators stay.
TEST_CASE("A module with an operator of its own loads where the operator's library is configured, and only there") {
  const std::string folder = ExportedGolden("custom_op");
  CHECK_THAT(ImageError(folder), ContainsSubstring("needs 'libtributary_test_ops.so', which is not in the server's"));
  const ExportedCopy unnamed("custom_op");
  unnamed.Patch({{"module", {{"libraries", nullptr}}}});
  CHECK_THAT(ImageError(unnamed.path()),
             ContainsSubstring("tributary_test::scale") && ContainsSubstring("tributary.json: none)"));

  const auto loaded = LoadImage(folder, {.op_libraries = {TRIBUTARY_TEST_OPS}});

  CAPTURE(std::string(loaded.status().message()));
  REQUIRE(loaded.ok());
  const auto run = RunBatch(*loaded->loaded.program, Pixels(2, 16));
  REQUIRE(run.ok());
  std::vector<float> expected = ReadJson(ExportedGolden("image/golden.json")).at("vector");
  for (float& value : expected) value *= 2;
  CheckNear(run->vectors[0], expected);
}

}  // namespace
}  // namespace tributary
