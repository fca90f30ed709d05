// The torch-free half of exported models: the manifest, and how texts are padded into groups and laid into a slot.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/libtorch/exported/export_manifest.h"
#include "engine/libtorch/exported/op_libraries.h"
#include "engine/libtorch/exported/padded_groups.h"
#include "engine/libtorch/exported/text_slot.h"
#include "tests/engine/libtorch/exported_goldens.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

using nlohmann::json;

std::string ErrorOf(const ExportedCopy& copy) {
  const auto manifest = ReadExportManifest(copy.path());
  return manifest.ok() ? "OK" : std::string(manifest.status().message());
}

TEST_CASE("A text manifest says what the module takes and gives") {
  const std::string folder = ExportedGolden("text");
  REQUIRE(IsExportedModel(folder));
  CHECK_FALSE(IsExportedModel(ExportedGolden("wrong")));
  const auto manifest = ReadExportManifest(folder);
  REQUIRE(manifest.ok());
  CHECK(manifest->module_path == folder + "/model.pt");
  CHECK(manifest->type == ModuleType::kTorchScript);
  REQUIRE(manifest->inputs.size() == 4);
  CHECK(manifest->inputs[2].role == InputRole::kPositionIds);
  CHECK(manifest->inputs[2].type == ElementType::kInt64);
  CHECK(manifest->output.holds == ExportedOutput::Holds::kTokenStates);
  CHECK(manifest->output.dimension == 8);
  CHECK((manifest->batch.min == 1 && manifest->batch.max == 16));
  REQUIRE(manifest->text);
  CHECK(manifest->text->length.max == 64);
  CHECK(manifest->text->pooling == std::vector{Pooling::kMean});
  CHECK(manifest->text->normalise);
}

TEST_CASE("An image manifest without a transform of its own has that of preprocessor_config.json") {
  const ExportedCopy copy("image");
  auto manifest = ReadExportManifest(copy.path());
  REQUIRE(manifest.ok());
  REQUIRE(manifest->image);
  CHECK(manifest->image->rescale == Approx(1.0 / 255));
  CHECK(manifest->image->mean[2] == 0.125);
  CHECK(manifest->image->std[0] == 0.25);

  copy.Patch({{"image", {{"rescale", 2}, {"mean", {1, 2, 3}}}}});
  manifest = ReadExportManifest(copy.path());
  REQUIRE(manifest.ok());
  CHECK(manifest->image->rescale == 2);
  CHECK(manifest->image->mean[2] == 3);
  CHECK(manifest->image->std[2] == 1);

  CHECK(ErrorOf(ExportedCopy("image").Patch({{"image", {{"std", {1, 0, 1}}}}})).find("image.std must be above 0") !=
        std::string::npos);
  const ExportedCopy alone("image");
  alone.Remove("preprocessor_config.json");
  CHECK_THAT(ErrorOf(alone), ContainsSubstring("preprocessor_config.json"));
}

TEST_CASE("What is wrong in a manifest is named with its file and key") {
  struct Case {
    json patch;
    std::string error;
  };
  const std::vector<Case> cases = {
      {{{"format", 2}}, "format must be a whole number from 1 to 1, is 2"},
      {{{"format", nullptr}}, "format is missing"},
      {{{"kind", "audio"}}, "kind must be one of text, image, is 'audio'"},
      {{{"colour", 1}}, "colour is an unknown key"},
      {{{"module", {{"sha256", "x"}}}}, "module.sha256 is an unknown key"},
      {{{"module", {{"file", "../model.pt"}}}},
       "module.file must be the name of a file in the folder, is '../model.pt'"},
      {{{"module", {{"type", "onnx"}}}}, "module.type must be one of aoti, torchscript, is 'onnx'"},
      {{{"module", {{"libraries", "x"}}}}, "module.libraries must be a list of strings, is \"x\""},
      {{{"module", 7}}, "module must be an object, is 7"},
      {{{"inputs", json::array()}}, "inputs must be a list of the module's arguments"},
      {{{"inputs", json::array({{{"role", "attention_mask"}, {"dtype", "int64"}}})}},
       "inputs must hold one of role ids"},
      {{{"inputs", json::array({{{"role", "ids"}, {"dtype", "float32"}}})}},
       "inputs[0].dtype must be int32 or int64, is float32"},
      {{{"inputs", json::array({{{"role", "pixels"}, {"dtype", "uint8"}}})}}, "inputs[0].role must be one of a text's"},
      {{{"inputs", json::array({{{"role", "ids"}, {"dtype", "int64"}, {"name", "x"}}})}},
       "inputs[0].name is an unknown key"},
      {{{"output", {{"dimension", 0}}}}, "output.dimension must be a whole number from 1 to 1048576, is 0"},
      {{{"output", {{"dtype", "int64"}}}}, "output.dtype must be floating"},
      {{{"output", {{"name", "x"}}}}, "output.name is for a TorchScript module that returns a dictionary"},
      {{{"output", {{"holds", "vectors"}}}}, "pooling is for token_states; the output holds vectors"},
      {{{"batch", {{"min", 17}}}}, "batch.min is 17, more than max 16"},
      {{{"length", {{"max", -1}}}}, "length.max must be a whole number from 1 to 1048576, is -1"},
      {{{"length", {{"max", 18446744073709551615ULL}}}}, "length.max must be a whole number from 1 to 1048576"},
      {{{"length", nullptr}}, "length is missing"},
      {{{"pad_id", 32}}, "pad_id is 32, must be below vocabulary_size 32"},
      {{{"pooling", json::array({"median"})}}, "pooling mode 'median' is not supported"},
      {{{"pooling", json::array({"mean", "mean"})}}, "pooling mode 'mean' is given twice"},
      {{{"batch", {{"min", 4096}, {"max", 4096}}}, {"length", {{"min", 1024}, {"max", 1048576}}}},
       "batch min 4096 of texts of at least 1024 tokens: the smallest batch has more than 1048576 tokens"},
      {{{"pooling", nullptr}}, "pooling is missing: there is no modules.json to say it"},
      {{{"normalise", "yes"}}, "normalise must be true or false, is \"yes\""},
      {{{"image", json::object()}}, "image is an unknown key"},
  };
  for (const Case& bad : cases) {
    const ExportedCopy copy("text");
    copy.Patch(bad.patch);
    CHECK_THAT(ErrorOf(copy), ContainsSubstring(copy.path() + "/tributary.json: " + bad.error));
  }
}

TEST_CASE("A manifest beside modules.json leaves the pooling to it") {
  const ExportedCopy copy("text");
  copy.Write("modules.json", "[]");
  CHECK_THAT(ErrorOf(copy), ContainsSubstring("are modules.json's to say"));
  copy.Patch({{"pooling", nullptr}, {"normalise", nullptr}});
  CHECK(ErrorOf(copy) == "OK");
  copy.Patch({{"output", {{"holds", "vectors"}}}});
  CHECK_THAT(ErrorOf(copy), ContainsSubstring("modules.json would pool and change them"));
}

TEST_CASE("A manifest or module file that is not there or no JSON is an error naming it") {
  const ExportedCopy copy("text");
  copy.Remove("model.pt");
  CHECK(ReadExportManifest(copy.path()).status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(ErrorOf(copy), ContainsSubstring(copy.File("model.pt")));
  copy.Write("tributary.json", R"({"format": 1)");
  CHECK_THAT(ErrorOf(copy), ContainsSubstring("tributary.json is not valid JSON"));
  copy.Write("tributary.json", "[1]");
  CHECK_THAT(ErrorOf(copy), ContainsSubstring("the document must be an object, is [1]"));
  copy.Remove("tributary.json");
  CHECK(ReadExportManifest(copy.path()).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("An operator library is loaded only from the server's own configuration") {
  CHECK(LoadOpLibraries({}, {"/nonexistent/libx.so"}, "M").ok());
  const auto missing = LoadOpLibraries({"libx.so"}, {"/a/liby.so"}, "M");
  CHECK(missing.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(
      std::string(missing.message()),
      ContainsSubstring("M: module.libraries needs 'libx.so', which is not in the server's op_libraries (/a/liby.so)"));
  const auto broken = LoadOpLibraries({"libx.so"}, {"/nonexistent/libx.so"}, "M");
  CHECK(broken.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(broken.message()), ContainsSubstring("op_libraries: cannot load /nonexistent/libx.so"));
}

TEST_CASE("Padded lengths rise by at most a quarter, are few, and end at the longest") {
  const PaddingRules rules{.min_length = 1, .max_length = 500};
  const auto lengths = PaddedLengths(rules);
  CHECK(lengths.front() == 8);
  CHECK(lengths.back() == 500);
  CHECK(lengths.size() < 30);
  for (uint64_t length = 1; length <= 500; ++length) {
    const uint64_t padded = PaddedLength(length, rules);
    REQUIRE(padded >= length);
    REQUIRE(padded <= std::max<uint64_t>(8, length + length / 4));
    REQUIRE(std::find(lengths.begin(), lengths.end(), padded) != lengths.end());
  }
  CHECK(PaddedLength(1, {.min_length = 30, .max_length = 500}) == 32);
  CHECK(PaddedLengths({.min_length = 1, .max_length = 3}) == std::vector<uint64_t>{3});
}

TEST_CASE("Near lengths share a group, far ones do not, and a dear call makes one group of all") {
  const std::vector<uint32_t> lengths = {64, 60, 57, 9, 8};
  auto groups = GroupByLength(lengths, {.max_length = 64, .call_cost = 16});
  REQUIRE(groups.size() == 2);
  CHECK((groups[0].first_row == 0 && groups[0].rows == 3 && groups[0].length == 64));
  CHECK((groups[1].first_row == 3 && groups[1].rows == 2 && groups[1].length == 10));
  groups = GroupByLength(lengths, {.max_length = 64, .call_cost = 1000});
  REQUIRE(groups.size() == 1);
  CHECK((groups[0].rows == 5 && groups[0].length == 64));
  groups = GroupByLength(std::vector<uint32_t>{5}, {.max_length = 64, .min_rows = 2});
  CHECK((groups[0].rows == 1 && groups[0].padded_rows == 2));
}

TEST_CASE("Random batches within the limits stay within the bounds of groups, tokens and slot, and lose no row") {
  const auto manifest = ReadExportManifest(ExportedGolden("text"));
  REQUIRE(manifest.ok());
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    PaddingRules rules;
    rules.max_length = 1 + random() % 300;
    rules.min_length = 1 + random() % rules.max_length;
    rules.min_rows = 1 + random() % 3;
    rules.call_cost = random() % 3 * 50;
    const size_t most_rows = 1 + random() % 64;
    std::vector<uint32_t> lengths;
    uint64_t useful = 0;
    while (lengths.size() < most_rows) {
      const uint64_t longest = random() % 2 == 0 ? rules.max_length : std::min<uint64_t>(rules.max_length, 9);
      lengths.push_back(static_cast<uint32_t>(1 + random() % longest));
      useful += lengths.back();
    }
    std::sort(lengths.rbegin(), lengths.rend());

    const auto groups = GroupByLength(lengths, rules);

    uint64_t padded = 0;
    size_t row = 0;
    for (const PaddedGroup& group : groups) {
      REQUIRE(group.first_row == row);
      REQUIRE(group.padded_rows >= std::max<uint64_t>(group.rows, rules.min_rows));
      REQUIRE((group.length >= lengths[row] && group.length >= rules.min_length && group.length <= rules.max_length));
      padded += group.padded_rows * group.length;
      row += group.rows;
    }
    REQUIRE(row == lengths.size());
    REQUIRE(groups.size() <= MaxGroups(lengths.size(), rules));
    REQUIRE(padded <= MaxPaddedTokens(useful, lengths.size(), rules));
    const TextSlot slot(*manifest, groups, lengths);
    REQUIRE(slot.padded_tokens() == padded);
    REQUIRE(slot.bytes() <= TextSlot::MaxBytes(*manifest, useful, lengths.size(), rules));
  }
}

TEST_CASE("A slot holds ids, mask, positions and types padded on the right, and where the tokens are") {
  auto manifest = ReadExportManifest(ExportedGolden("text"));
  REQUIRE(manifest.ok());
  manifest->text->pad_id = 9;
  manifest->inputs[1].type = ElementType::kInt32;
  const std::vector<int32_t> first = {5, 6, 7};
  const std::vector<int32_t> second = {4};
  const std::vector<std::span<const int32_t>> texts = {first, second};
  const std::vector<PaddedGroup> groups = {{.first_row = 0, .rows = 2, .padded_rows = 3, .length = 4}};
  const TextSlot slot(*manifest, groups, std::vector<uint32_t>{3, 1});
  std::vector<std::byte> memory(slot.bytes(), std::byte{0xFF});

  slot.Fill(texts, memory.data());

  const auto longs = [&](size_t input) {
    std::vector<int64_t> values(12);
    std::memcpy(values.data(), memory.data() + slot.Input(0, input), 12 * sizeof(int64_t));
    return values;
  };
  const auto ints = [&](size_t offset, size_t count) {
    std::vector<int32_t> values(count);
    std::memcpy(values.data(), memory.data() + offset, count * sizeof(int32_t));
    return values;
  };
  CHECK(longs(0) == std::vector<int64_t>{5, 6, 7, 9, 4, 9, 9, 9, 9, 9, 9, 9});
  CHECK(ints(slot.Input(0, 1), 12) == std::vector<int32_t>{1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0});
  CHECK(longs(2) == std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(longs(3) == std::vector<int64_t>(12, 0));
  CHECK(ints(slot.Rows(), 4) == std::vector<int32_t>{0, 1, 2, 4});
  CHECK(ints(slot.Positions(), 4) == std::vector<int32_t>{0, 1, 2, 0});
  CHECK(ints(slot.Starts(), 3) == std::vector<int32_t>{0, 3, 4});
}

}  // namespace
}  // namespace tributary
