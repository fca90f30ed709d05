// WordTable, and the words of ASCII that are looked up in it.
#include "engine/prepare/text/model/word_table.h"

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/prepare/text/ascii_word.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

bool IsKept(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char Folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

TEST_CASE("A word table finds its words of up to 15 bytes and no others") {
  // Of two letters, one of them 0: words that differ in their length only.
  std::mt19937 random(1);
  std::set<std::string> drawn;
  for (int i = 0; i < 4000; ++i) {
    std::string word;
    for (size_t length = random() % 19; length > 0; --length) word += random() % 2 == 0 ? 'a' : '\0';
    drawn.insert(word);
  }
  WordTable::Words words;
  std::vector<std::string> others;
  for (const auto& word : drawn) {
    if (random() % 2 == 0) {
      words.emplace_back(word, static_cast<int32_t>(words.size()));
    } else {
      others.push_back(word);
    }
  }
  const WordTable table(words);
  size_t wrong = 0;
  for (const auto& [word, id] : words) {
    if (word.size() <= WordKey::kMost) wrong += table.Find(WordKey::Of(word)) == id ? 0 : 1;
  }
  for (const std::string_view word : others) {
    if (word.size() <= WordKey::kMost) wrong += table.Find(WordKey::Of(word)) == WordTable::kNoId ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("An empty word table finds nothing") { CHECK(WordTable().Find(WordKey::Of("a")) == WordTable::kNoId); }

TEST_CASE("A run of ASCII letters and digits ends at any other byte, wherever it is in the text") {
  size_t wrong = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char end = static_cast<char>(byte);
    for (size_t length = 0; length < 20; ++length) {
      std::string run = "Zz09AaMm8Kk7Qq6Ww5Ee";
      run.resize(length);
      for (const std::string& behind : {std::string(), std::string(1, end), std::string(40, end)}) {
        const std::string text = "x" + run + behind;
        size_t expected = 0;
        while (1 + expected < text.size() && IsKept(text[1 + expected])) ++expected;
        const AsciiWord small = ReadAsciiWord(text, 1, 0x20);
        const AsciiWord as_is = ReadAsciiWord(text, 1, 0);
        if (expected > WordKey::kMost) {
          wrong += small.length > WordKey::kMost && as_is.length > WordKey::kMost ? 0 : 1;
          continue;
        }
        const std::string word = text.substr(1, expected);
        std::string folded = word;
        for (char& c : folded) c = Folded(c);
        wrong += as_is.view() == word && as_is.Key() == WordKey::Of(word) ? 0 : 1;
        wrong += small.view() == folded && small.Key() == WordKey::Of(folded) ? 0 : 1;
      }
    }
  }
  CHECK(wrong == 0);
}

}  // namespace tributary
