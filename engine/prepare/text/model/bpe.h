// Byte pair encoding: GPT-2's over bytes, and SentencePiece's over characters.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/prepare/text/model/merge_table.h"
#include "engine/prepare/text/model/model.h"
#include "engine/prepare/text/model/word_table.h"
#include "engine/prepare/text/unicode/code_point_table.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

struct BpeOptions {
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // distinct pieces, of at least one byte
  std::vector<std::pair<std::string, std::string>> merges;  // the place is the rank
  std::string word_suffix;                                  // behind the last symbol of a word: </w>, or nothing
  std::optional<int32_t> unknown_id;                        // none: unknown symbols are left out
  bool byte_level = false;     // symbols are bytes, not characters; pieces and merges are already written in bytes
  bool fuse_unknown = false;   // unknown symbols side by side are one
  bool byte_fallback = false;  // an unknown character becomes <0x00> to <0xFF>, all of which are there
  bool ignore_merges = false;  // a word that is a piece is that piece, whatever the merges say
};

// Most words are pieces: which of those the merges arrive at is found out at construction, and looked up. The others
// are cut where no merge can ever reach across (a text of SentencePiece is one long word), and merged part by part.
// Time n log n in a word, at worst. Thread-safety: const after construction. Source: Sennrich, Haddow, Birch, Neural
// Machine Translation of Rare Words with Subword Units (2016); models/bpe in Hugging Face tokenizers.
class Bpe : public TokenModel {
 public:
  // Errors: INVALID_ARGUMENT a merge of, or into, what is no piece.
  static absl::StatusOr<std::unique_ptr<Bpe>> Create(const BpeOptions& options);
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  void Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const override;

 private:
  using Words = absl::flat_hash_map<std::string_view, int32_t, std::hash<std::string_view>>;
  struct Scratch;

  static constexpr int32_t kNoId = -1;

  static int32_t Find(const Words& words, std::string_view word) {
    const auto found = words.find(word);
    return found == words.end() ? kNoId : found->second;
  }
  int32_t FindWhole(std::string_view word) const {
    return word.size() <= WordKey::kMost ? short_words_.Find(WordKey::Of(word)) : Find(whole_words_, word);
  }
  // Symbols side by side inside some piece that merges make. May say yes where no is right: then a word is cut less,
  // and no result changes.
  class Joints {
   public:
    explicit Joints(size_t count);
    void Add(int32_t left, int32_t right) { bits_[Place(left, right) / 64] |= 1ull << Place(left, right) % 64; }
    bool May(int32_t left, int32_t right) const {
      return (bits_[Place(left, right) / 64] >> Place(left, right) % 64 & 1) != 0;
    }

   private:
    size_t Place(int32_t left, int32_t right) const {
      const uint64_t both = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
      return both * 0x9E3779B97F4A7C15 >> shift_;
    }
    uint32_t shift_;
    std::vector<uint64_t> bits_;
  };

  explicit Bpe(const BpeOptions& options);
  absl::Status AddMerges(const BpeOptions& options);
  void FindWholeWords();
  char32_t Next(std::string_view word, size_t& position) const {
    return byte_level_ ? static_cast<uint8_t>(word[position++]) : utf8::Decode(word, position);
  }
  int32_t Symbol(char32_t code, bool is_last) const {
    return is_last && !word_suffix_.empty() ? LastSymbol(code) : symbols_[code];
  }
  int32_t LastSymbol(char32_t code) const;  // with the suffix
  void ReadSymbols(std::string_view word, Scratch& scratch) const;
  void EncodeWord(std::string_view word, size_t enough, Scratch& scratch, std::vector<int32_t>& ids) const;

  std::string word_suffix_;
  int32_t unknown_id_;  // kNoId: none
  bool byte_level_;
  bool fuse_unknown_;
  bool byte_fallback_;
  bool ignore_merges_;
  std::string text_;  // all pieces, one behind the other: what the keys of the maps point into
  Words pieces_;
  Words whole_words_;                  // those the merges arrive at
  WordTable short_words_;              // the short ones of those
  CodePointTable<int32_t> symbols_;    // by character or byte; kNoId: none
  std::array<int32_t, 256> byte_ids_;  // of the fallback
  MergeTable merges_;
  Joints joints_;
};

}  // namespace tributary
