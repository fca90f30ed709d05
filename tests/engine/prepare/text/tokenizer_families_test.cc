// Token ids of every family against Hugging Face tokenizers (goldens: tests/golden/generate_tokenizer_families.py).
#include <algorithm>
#include <fstream>
#include <iterator>
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

const std::string kGoldens = TRIBUTARY_SOURCE_DIR "/tests/golden/tokenizer/";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::unique_ptr<TokenizingPreparer> Load(const std::string& tokenizer) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json", tokenizer);
  folder.Write("sentence_bert_config.json", R"({"max_seq_length": 64})");
  auto preparer = LoadTextPreparer(folder.path(), 0);
  INFO(preparer.status().ToString());
  REQUIRE(preparer.ok());
  return *std::move(preparer);
}

std::unique_ptr<TokenizingPreparer> LoadFamily(const std::string& name) {
  return Load(ReadFile(kGoldens + "families/" + name + ".json"));
}

// lines() of generate_tokenizer_families.py.
const std::vector<std::string>& Lines() {
  static const std::vector<std::string> kLines = [] {
    std::vector<std::string> lines;
    for (const auto& entry : nlohmann::json::parse(ReadFile(kGoldens + "odd.json"))) lines.push_back(entry["text"]);
    const auto corpus = golden::ReadCorpus();
    for (size_t i = 0; i < corpus.size(); i += 10) lines.push_back(corpus[i]);
    for (uint64_t i = 0; i < 2000; ++i) lines.push_back(golden::FamilyLine(i));
    return lines;
  }();
  return kLines;
}

void CheckFamily(const std::string& name) {
  INFO("family: " << name);
  const auto preparer = LoadFamily(name);
  const auto hashes = golden::ReadHashes("families/" + name + ".bin");
  REQUIRE(hashes.size() == Lines().size());
  CHECK(golden::CountDifferences(*preparer, Lines(), hashes.data()) == 0);
}

TEST_CASE("Byte-level BPE gives the reference's ids: RoBERTa, CLIP, Qwen3, ModernBERT and Llama 3") {
  for (const char* name : {"roberta", "clip", "qwen", "modern_bert", "llama3"}) CheckFamily(name);
}

TEST_CASE("BPE over characters gives the reference's ids: Gemma, SigLIP 2, Mistral and Llama") {
  for (const char* name : {"gemma", "siglip2", "mistral", "llama"}) CheckFamily(name);
}

TEST_CASE("Unigram gives the reference's ids: XLM-RoBERTa, T5, SigLIP, ALBERT, and with byte fallback") {
  for (const char* name : {"xlm_roberta", "t5", "siglip", "albert", "unigram_bytes"}) CheckFamily(name);
}

TEST_CASE("WordPiece gives the reference's ids: MPNet, DistilBERT, and with steps other than BERT's") {
  for (const char* name : {"mpnet", "distilbert", "other_word_piece"}) CheckFamily(name);
}

TEST_CASE("A tokeniser of BERT's parts gives the same ids step by step as fused") {
  auto tokenizer = nlohmann::json::parse(ReadFile(kGoldens + "families/distilbert.json"));
  tokenizer["normalizer"] = {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", true}};
  const auto fused = Load(tokenizer.dump());
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", {tokenizer["normalizer"]}}};
  const auto steps = Load(tokenizer.dump());
  size_t differ = 0;
  for (const auto& line : Lines()) {
    const auto ids = fused->Prepare({.text = line, .token_ids = {}}, Truncation::kEnd)->ids;
    differ += steps->Prepare({.text = line, .token_ids = {}}, Truncation::kEnd)->ids == ids ? 0 : 1;
  }
  CHECK(differ == 0);
}

TEST_CASE("A text cut at its start keeps the last ids, those of the whole text") {
  for (const char* name : {"gemma", "qwen", "xlm_roberta"}) {
    const auto preparer = LoadFamily(name);
    const std::string tail = " the quick brown fox jumps over a lazy dog";
    std::string text;
    while (text.size() < 100000) text += tail;
    const auto whole = preparer->Prepare({.text = text, .token_ids = {}}, Truncation::kNone);
    REQUIRE_FALSE(whole.ok());  // says how many there are
    const auto cut = preparer->Prepare({.text = text, .token_ids = {}}, Truncation::kStart);
    const auto last = preparer->Prepare({.text = tail, .token_ids = {}}, Truncation::kEnd);
    REQUIRE(cut.ok());
    CHECK(cut->truncated);
    CHECK(cut->ids.size() == 64);
    // Behind the first word, which a text begins otherwise than it goes on.
    const size_t same = last->ids.size() / 2;
    CHECK(std::equal(cut->ids.end() - static_cast<ptrdiff_t>(same), cut->ids.end(),
                     last->ids.end() - static_cast<ptrdiff_t>(same)));
  }
}

TEST_CASE("Words of a megabyte are read to their end by every model") {
  for (const char* name :
       {"roberta", "clip", "qwen", "gemma", "mistral", "xlm_roberta", "unigram_bytes", "other_word_piece"}) {
    INFO("family: " << name);
    const auto preparer = LoadFamily(name);
    for (const std::string& part :
         {std::string("a"), std::string("ab"), std::string("\u00e9\u0301"), std::string(" "), std::string("<")}) {
      std::string text;
      while (text.size() < 1 << 20) text += part;
      CHECK(preparer->Prepare({.text = text, .token_ids = {}}, Truncation::kStart).ok());
    }
  }
}

}  // namespace
}  // namespace tributary
