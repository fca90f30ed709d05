// Token ids against Hugging Face tokenizers / sentence-transformers (goldens: tests/golden/generate_tokenizer.py).
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/prepare/text/text_preparer.h"
#include "tests/engine/prepare/text/golden_lines.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

const std::string kHubFolder = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";
const std::string kGoldens = TRIBUTARY_SOURCE_DIR "/tests/golden/tokenizer/";

std::unique_ptr<TokenizingPreparer> Load(const std::string& folder) {
  auto preparer = LoadTextPreparer(folder, 0);
  INFO(preparer.status().ToString());
  REQUIRE(preparer.ok());
  return *std::move(preparer);
}

std::vector<int32_t> Ids(const TextPreparer& preparer, const std::string& text, Truncation truncation) {
  const auto tokens = preparer.Prepare({.text = text, .token_ids = {}}, truncation);
  INFO(tokens.status().ToString());
  REQUIRE(tokens.ok());
  return tokens->ids;
}

TEST_CASE("Ids of texts that go wrong elsewhere equal the reference's, cut at the end and at the start") {
  const auto preparer = Load(kHubFolder);
  std::ifstream file(kGoldens + "odd.json");
  const auto entries = nlohmann::json::parse(file);
  REQUIRE(entries.size() >= 200);
  for (const auto& entry : entries) {
    const auto text = entry["text"].get<std::string>();
    INFO("text: " << text.substr(0, 200));
    const auto ids = entry["ids"].get<std::vector<int32_t>>();
    CHECK(Ids(*preparer, text, Truncation::kEnd) == ids);
    CHECK(Ids(*preparer, text, Truncation::kStart) == entry.value("ids_start", ids));
  }
}

TEST_CASE("Ids of real text, mixed languages, fuzz and every code point equal the reference's") {
  const auto preparer = Load(kHubFolder);
  const auto corpus = golden::ReadCorpus();
  const auto hashes = golden::ReadHashes("lines.bin");

  std::vector<std::string> lines = corpus;
  for (uint64_t i = 0; i < 20000; ++i) lines.push_back(golden::MixedLine(corpus, i));
  for (uint64_t i = 0; i < 10000; ++i) lines.push_back(golden::FuzzLine(i));
  for (auto& line : golden::CodePointLines(0x30000)) lines.push_back(std::move(line));

  REQUIRE(corpus.size() >= 4000);
  REQUIRE(lines.size() == hashes.size());
  CHECK(golden::CountDifferences(*preparer, lines, hashes.data()) == 0);
}

TEST_CASE("Every setting of the normaliser's switches gives the reference's ids") {
  std::vector<std::string> lines;
  for (uint64_t i = 0; i < 400; ++i) lines.push_back(golden::FuzzLine(i));
  const auto hashes = golden::ReadHashes("switches.bin");
  REQUIRE(hashes.size() == 16 * lines.size());
  std::ifstream file(kHubFolder + "/tokenizer.json");
  auto tokenizer = nlohmann::json::parse(file);

  for (unsigned bits = 0; bits < 16; ++bits) {
    tokenizer["normalizer"] = {{"type", "BertNormalizer"},
                               {"clean_text", (bits & 1) != 0},
                               {"handle_chinese_chars", (bits & 2) != 0},
                               {"strip_accents", (bits & 4) != 0},
                               {"lowercase", (bits & 8) != 0}};
    const TemporaryFolder folder;
    folder.Write("tokenizer.json", tokenizer.dump());
    folder.Write("sentence_bert_config.json", R"({"max_seq_length": 256})");
    INFO("switches: " << bits);
    CHECK(golden::CountDifferences(*Load(folder.path()), lines, &hashes[bits * lines.size()]) == 0);
  }
}

TEST_CASE("A folder with vocab.txt and tokenizer_config.json gives the ids of its tokenizer.json") {
  const TemporaryFolder folder;
  for (const char* name : {"vocab.txt", "tokenizer_config.json", "sentence_bert_config.json"}) {
    std::filesystem::copy(kHubFolder + "/" + name, folder.path() + "/" + name);
  }
  const auto preparer = Load(folder.path());
  const auto corpus = golden::ReadCorpus();
  CHECK(preparer->max_tokens() == 256);
  CHECK(preparer->vocabulary_size() == 30522);
  CHECK(golden::CountDifferences(*preparer, corpus, golden::ReadHashes("lines.bin").data()) == 0);
}

}  // namespace
}  // namespace tributary
