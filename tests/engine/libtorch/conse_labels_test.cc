#include "engine/libtorch/encode/conse_labels.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

const std::vector<std::string> kSentences = {"a photo of a tench", "a photo of a goldfish"};

// Counts how often it is asked.
struct FakeEncoder {
  EmbedSentences Function() {
    return [this](const std::vector<std::string>& sentences) -> absl::StatusOr<std::vector<std::vector<float>>> {
      ++calls;
      std::vector<std::vector<float>> rows;
      for (const std::string& sentence : sentences) rows.push_back({3, 4, static_cast<float>(sentence.size()) - 18});
      return rows;
    };
  }
  int calls = 0;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("Every class name is put into the template, in order") {
  const TemporaryFolder folder;
  folder.Write("labels.txt", "tench\r\ngoldfish\ngreat white shark\n");
  const auto sentences = ReadLabelSentences(folder.File("labels.txt"), "a photo of a {name}.");
  REQUIRE(sentences.ok());
  CHECK(*sentences ==
        std::vector<std::string>{"a photo of a tench.", "a photo of a goldfish.", "a photo of a great white shark."});
}

TEST_CASE("The labels of the default model are its 1,000 classes") {
  const auto sentences = ReadLabelSentences(TRIBUTARY_SOURCE_DIR "/config/imagenet-1k-labels.txt", "{name}");
  REQUIRE(sentences.ok());
  CHECK(sentences->size() == 1000);
  CHECK((*sentences)[0] == "tench");
  CHECK((*sentences)[967] == "espresso");
}

TEST_CASE("A missing file, an empty name and a template without a place are refused by name") {
  const TemporaryFolder folder;
  folder.Write("gap.txt", "tench\n\ngoldfish\n");
  folder.Write("empty.txt", "");
  CHECK(ReadLabelSentences(folder.File("none.txt"), "{name}").status().code() == absl::StatusCode::kNotFound);
  CHECK(ReadLabelSentences(folder.File("gap.txt"), "{name}").status().message() ==
        folder.File("gap.txt") + ":2: a class name is empty");
  CHECK(ReadLabelSentences(folder.File("empty.txt"), "{name}").status().message() ==
        folder.File("empty.txt") + " holds no class names");
  CHECK(ReadLabelSentences(folder.File("gap.txt"), "a photo").status().message() ==
        "label_template must contain {name}, is 'a photo'");
}

TEST_CASE("Label vectors are embedded once, normalised, and read from the cache afterwards") {
  const TemporaryFolder folder;
  FakeEncoder encoder;
  const std::string cache = folder.File("not/there/yet");
  const auto computed = LoadOrComputeLabelVectors(kSentences, "weights-1 fp32", cache, encoder.Function());
  REQUIRE(computed.ok());
  CHECK(computed->classes == 2);
  CHECK(computed->dimension == 3);
  CHECK(computed->values[0] == 0.6f);
  CHECK(computed->values[1] == 0.8f);
  CHECK(computed->values[2] == 0.0f);
  const auto cached = LoadOrComputeLabelVectors(kSentences, "weights-1 fp32", cache, encoder.Function());
  REQUIRE(cached.ok());
  CHECK(cached->values == computed->values);
  CHECK(cached->dimension == 3);
  CHECK(encoder.calls == 1);
  // Nothing is left beside the one cache file.
  CHECK(std::distance(std::filesystem::directory_iterator(cache), {}) == 1);
}

TEST_CASE("Other sentences or other weights do not meet the cache of the first") {
  const TemporaryFolder folder;
  FakeEncoder encoder;
  REQUIRE(LoadOrComputeLabelVectors(kSentences, "weights-1", folder.path(), encoder.Function()).ok());
  REQUIRE(LoadOrComputeLabelVectors(kSentences, "weights-2", folder.path(), encoder.Function()).ok());
  REQUIRE(LoadOrComputeLabelVectors({"a photo of a tencha", " photo of a goldfish"}, "weights-1", folder.path(),
                                    encoder.Function())
              .ok());
  CHECK(encoder.calls == 3);
}

TEST_CASE("A damaged cache file is not trusted: it is computed again and replaced") {
  const TemporaryFolder folder;
  FakeEncoder encoder;
  REQUIRE(LoadOrComputeLabelVectors(kSentences, "w", folder.path(), encoder.Function()).ok());
  const std::string path = LabelCachePath(kSentences, "w", folder.path());
  const std::string good = ReadFile(path);
  REQUIRE(good.size() > 40);
  std::vector<std::string> damaged = {"", good.substr(0, 20), good.substr(0, good.size() - 1), good + "x"};
  for (const size_t at : {size_t{0}, size_t{8}, size_t{16}, size_t{24}, good.size() - 2}) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x40);
  }
  damaged.push_back(good);
  damaged.back().replace(16, 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F");
  int calls = encoder.calls;
  for (const std::string& bytes : damaged) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    REQUIRE(LoadOrComputeLabelVectors(kSentences, "w", folder.path(), encoder.Function()).ok());
    CHECK(encoder.calls == ++calls);
    CHECK(ReadFile(path) == good);
  }
}

TEST_CASE("Without a cache folder, or with one that cannot be written, the vectors are computed every time") {
  const TemporaryFolder folder;
  folder.Write("file", "in the way");
  FakeEncoder encoder;
  for (const std::string& cache : {std::string(), folder.File("file")}) {
    CHECK(LoadOrComputeLabelVectors(kSentences, "w", cache, encoder.Function()).ok());
    CHECK(LoadOrComputeLabelVectors(kSentences, "w", cache, encoder.Function()).ok());
  }
  CHECK(encoder.calls == 4);
}

TEST_CASE("Vectors that are missing, ragged, zero or not finite are refused and not cached") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::vector<float>>> wrong = {
      {}, {{1, 2}}, {{1, 2}, {1, 2, 3}}, {{1, 2}, {0, 0}}, {{1, 2}, {NAN, 1}}, {{1, 2}, {INFINITY, 1}}};
  for (const auto& rows : wrong) {
    const auto labels = LoadOrComputeLabelVectors(
        kSentences, "w", folder.path(),
        [&](const std::vector<std::string>&) -> absl::StatusOr<std::vector<std::vector<float>>> { return rows; });
    CHECK(labels.status().code() == absl::StatusCode::kInternal);
  }
  const auto failed =
      LoadOrComputeLabelVectors(kSentences, "w", folder.path(),
                                [](const std::vector<std::string>&) -> absl::StatusOr<std::vector<std::vector<float>>> {
                                  return absl::UnavailableError("no device");
                                });
  CHECK(failed.status() == absl::UnavailableError("no device"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tributary
