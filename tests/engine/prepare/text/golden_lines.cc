#include "tests/engine/prepare/text/golden_lines.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>

#include "engine/prepare/text/unicode/utf8.h"
#include "tests/support/catch.h"

namespace tributary::golden {
namespace {

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Below(uint64_t bound) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (z ^ z >> 31) % bound;
  }

 private:
  uint64_t state_;
};

struct Block {
  char32_t first;
  uint64_t count;
};
constexpr Block kBlocks[] = {{0x00, 0x80},     {0x61, 26},      {0x61, 26},     {0x41, 26},         {0x20, 1},
                             {0x80, 0x1D0},    {0x300, 0x70},   {0x370, 0x190}, {0x590, 0x270},     {0x900, 0x700},
                             {0x1100, 0x100},  {0x1E00, 0x200}, {0x2000, 0x70}, {0x3000, 0x100},    {0x4E00, 0x5200},
                             {0xAC00, 0x2BA4}, {0xF900, 0x700}, {0x0, 0xD800},  {0x10000, 0x10000}, {0x1F300, 0x700}};
constexpr std::string_view kSnippets[] = {
    "[SEP]",     "[CLS]",  "[MASK]", "[PAD]",  "[UNK]",   "[sep]",        "[SEP",         "##ing",
    "embedding", "\u0130", "\u00df", "\ufb01", "e\u0301", "\u1e9b\u0323", "\u302e\u1b44", "\U0001d165\U0001d16d",
    "\u00ad",    "\u200b", "\ufffd", "\r\n"};

constexpr std::string_view kFamilySnippets[] = {"<s>",
                                                "</s>",
                                                "<mask>",
                                                " <mask> ",
                                                "<pad>",
                                                "<unk>",
                                                "<|endoftext|>",
                                                "<|startoftext|>",
                                                "<|im_start|>",
                                                "[MASK]",
                                                "[CLS]",
                                                "[SEP]",
                                                "<bos>",
                                                "<eos>",
                                                "<extra_id_0>",
                                                "    ",
                                                "  ",
                                                "\t\t",
                                                "\n\n",
                                                "\r\n",
                                                " \n ",
                                                "\u2581",
                                                "\u2581\u2581",
                                                "</w>",
                                                "'s",
                                                "'RE",
                                                "'ll",
                                                "'\u017f",
                                                "don't",
                                                "it's",
                                                "ing",
                                                " the",
                                                "tion",
                                                "2024",
                                                "3.14",
                                                "\u00a9\u200d",
                                                "\U0001f468\u200d\U0001f469\u200d\U0001f467",
                                                "\U0001f1eb\U0001f1f7",
                                                "\u1112\u1161\u11ab",
                                                "\u0915\u094d\u0937",
                                                "e\u0301",
                                                "\uff76\uff9e",
                                                "\u00a0",
                                                "\u3000",
                                                "<0x41>",
                                                "``",
                                                "''",
                                                "word",
                                                "WORD",
                                                "\u0130"};

// Up to `most` parts, one of `rarity` a snippet, the others single characters.
std::string RandomLine(Random random, uint64_t most, uint64_t rarity, std::span<const std::string_view> snippets) {
  std::string line;
  for (uint64_t left = 1 + random.Below(most); left > 0; --left) {
    if (random.Below(rarity) == 0) {
      line += snippets[random.Below(snippets.size())];
      continue;
    }
    const Block& block = kBlocks[random.Below(std::size(kBlocks))];
    utf8::Append(block.first + static_cast<char32_t>(random.Below(block.count)), line);
  }
  return line;
}

}  // namespace

std::string FuzzLine(uint64_t seed) { return RandomLine(Random(seed), 48, 12, kSnippets); }

std::string FamilyLine(uint64_t seed) { return RandomLine(Random(seed ^ 0x66616D696C79), 40, 3, kFamilySnippets); }

std::string MixedLine(const std::vector<std::string>& corpus, uint64_t seed) {
  Random random(seed ^ 0x6D69786564);
  std::string line;
  for (uint64_t left = 1 + random.Below(32); left > 0; --left) {
    std::string_view source = corpus[random.Below(corpus.size())];
    std::vector<std::string_view> words;
    while (true) {
      const size_t space = source.find(' ');
      words.push_back(source.substr(0, space));
      if (space == std::string_view::npos) break;
      source.remove_prefix(space + 1);
    }
    line += words[random.Below(words.size())];
    if (random.Below(16) != 0) line += ' ';
  }
  return line;
}

std::vector<std::string> CodePointLines(char32_t end) {
  std::vector<std::string> lines;
  size_t on_line = 0;
  for (char32_t code = 0; code < end; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    if (on_line++ % 20 == 0) {
      lines.emplace_back();
    } else {
      lines.back() += ' ';
    }
    lines.back() += 'a';
    utf8::Append(code, lines.back());
    lines.back() += 'b';
  }
  return lines;
}

std::vector<std::string> ReadCorpus() {
  std::ifstream file(TRIBUTARY_SOURCE_DIR "/tests/golden/tokenizer/corpus.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<uint32_t> ReadHashes(const std::string& name) {
  std::ifstream file(TRIBUTARY_SOURCE_DIR "/tests/golden/tokenizer/" + name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<uint32_t> hashes(bytes.size() / sizeof(uint32_t));
  std::memcpy(hashes.data(), bytes.data(), hashes.size() * sizeof(uint32_t));
  return hashes;
}

size_t CountDifferences(const TextPreparer& preparer, const std::vector<std::string>& lines, const uint32_t* hashes) {
  size_t differ = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto tokens = preparer.Prepare({.text = lines[i], .token_ids = {}}, Truncation::kEnd);
    if (tokens.ok() && IdsHash(tokens->ids) == hashes[i]) continue;
    if (++differ <= 5) UNSCOPED_INFO("line " << i << ": " << lines[i].substr(0, 400));
  }
  return differ;
}

uint32_t IdsHash(const std::vector<int32_t>& ids) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<uint32_t>(id) >> shift & 0xFF)) * 0x100000001B3;
    }
  }
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace tributary::golden
