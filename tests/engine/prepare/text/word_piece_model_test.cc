// WordPieceModel against the definition it speeds up, and how much work it may do.
#include "engine/prepare/text/model/word_piece_model.h"

#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/prepare/text/unicode/utf8.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

constexpr int32_t kUnknown = 0;

WordPieceOptions Options(const std::vector<std::string>& pieces) {
  WordPieceOptions options;
  options.unknown_id = kUnknown;
  options.vocabulary.emplace_back("[UNK]", kUnknown);
  for (const auto& piece : pieces) options.vocabulary.emplace_back(piece, options.vocabulary.size());
  return options;
}

// models/wordpiece of Hugging Face tokenizers, line by line: at each place the longest piece there is.
std::vector<int32_t> Defined(const WordPieceOptions& options, const std::string& word) {
  const std::map<std::string, int32_t> pieces(options.vocabulary.begin(), options.vocabulary.end());
  if (utf8::Count(word) > options.max_word_chars) return {options.unknown_id};
  std::vector<int32_t> ids;
  for (size_t start = 0; start < word.size();) {
    size_t end = word.size();
    for (; end > start; --end) {
      const auto found = pieces.find((start > 0 ? options.continuing_prefix : "") + word.substr(start, end - start));
      if (found == pieces.end()) continue;
      ids.push_back(found->second);
      break;
    }
    if (end == start) return {options.unknown_id};
    start = end;
  }
  return ids;
}

std::vector<int32_t> Ids(const WordPieceModel& model, const std::string& word) {
  std::vector<int32_t> ids;
  model.EncodeWord(word, utf8::Count(word), ids);
  return ids;
}

size_t Steps(const WordPieceModel& model, const std::string& word) {
  std::vector<int32_t> ids;
  WordPieceModel::Reader reader(model, ids);
  reader.Add(word, utf8::Count(word));
  reader.End();
  return reader.steps();
}

}  // namespace

TEST_CASE("Random vocabularies cut random words as the definition of WordPiece does") {
  // Few letters, so that pieces overlap in every way; some of them, and the prefix, are in words, too.
  const std::vector<std::string> letters = {"a", "b", "\u00e9", "#", "\u6f22"};
  std::mt19937 random(1);
  const auto draw = [&](size_t most) {
    std::string text;
    for (size_t length = 1 + random() % most; length > 0; --length) text += letters[random() % letters.size()];
    return text;
  };
  size_t differ = 0;
  for (int round = 0; round < 300; ++round) {
    std::map<std::string, int> drawn;
    for (size_t count = random() % 60; count > 0; --count) drawn[(random() % 2 == 0 ? "##" : "") + draw(5)] = 0;
    std::vector<std::string> pieces;
    for (const auto& [piece, unused] : drawn) pieces.push_back(piece);
    auto options = Options(pieces);
    options.max_word_chars = 1 + random() % 20;
    const WordPieceModel model(options);
    for (int i = 0; i < 100; ++i) {
      const std::string word = draw(20);
      differ += Ids(model, word) == Defined(options, word) ? 0 : 1;
    }
  }
  CHECK(differ == 0);
}

TEST_CASE("A word that begins with the prefix of continuing pieces is none of them") {
  const auto options = Options({"##", "##a", "#", "###b", "##b"});
  const WordPieceModel model(options);
  for (const std::string word : {"##", "##a", "##ab", "###", "#b", "####b", "a"}) {
    INFO(word);
    CHECK(Ids(model, word) == Defined(options, word));
  }
}

TEST_CASE("A model without continuing pieces knows whole words only") {
  const WordPieceModel model(Options({"a", "ab"}));
  CHECK(Ids(model, "ab") == std::vector<int32_t>{2});
  CHECK(Ids(model, "aba") == std::vector<int32_t>{kUnknown});
}

// The longest-match loop would look at n * n / 4 bytes here: it reads on to the end of each long piece before it finds
// that the piece is not there.
TEST_CASE("No vocabulary and no word takes more than two look-ups a byte") {
  static constexpr size_t kLength = 20000;
  std::vector<std::string> pieces = {
      "a", "##a", "b", "##b", std::string(999, 'a') + "c", "##" + std::string(999, 'a') + "c"};
  for (size_t length = 2; length < 200; length *= 3) pieces.push_back("##" + std::string(length, 'a') + "bb");
  auto options = Options(pieces);
  options.max_word_chars = kLength;
  const WordPieceModel model(options);
  std::string mixed;
  for (size_t run = 1; mixed.size() < kLength - 300; run = run % 250 + 1) mixed += std::string(run, 'a') + "b";
  for (const auto& word : {std::string(kLength, 'a'), std::string(kLength - 1, 'a') + "c",
                           std::string(kLength - 1, 'a') + "z", mixed, mixed + "z"}) {
    CHECK(Steps(model, word) <= 2 * word.size());
  }
}

TEST_CASE("Behind the last character a word may have nothing is looked up, and no ids pile up") {
  const WordPieceModel model(Options({"a", "##a"}));
  std::vector<int32_t> ids;
  WordPieceModel::Reader reader(model, ids);
  for (int i = 0; i < 100000; ++i) reader.Add("a", 1);
  CHECK(reader.steps() <= 2 * model.max_word_chars());
  CHECK(ids.size() <= model.max_word_chars());
  reader.End();
  CHECK(ids == std::vector<int32_t>{kUnknown});
}

}  // namespace tributary
