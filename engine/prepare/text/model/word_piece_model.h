// WordPiece: a word cut greedily into the longest pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/prepare/text/model/model.h"
#include "engine/prepare/text/model/piece_trie.h"

namespace tributary {

struct WordPieceOptions {
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // distinct pieces
  std::string continuing_prefix = "##";
  size_t max_word_chars = 100;  // longer words are unknown
  int32_t unknown_id = 0;
};

// A word is read once, byte by byte. Where no piece goes on, the node's link says which pieces what was read is certain
// to begin with, and at which node the rest of it is: no byte is read again. Invariants: at most two look-ups in the
// trie a byte, however the vocabulary is made. Thread-safety: const after construction. Source: Song et al., Fast
// WordPiece Tokenization (2021), LinMaxMatch; Wu et al., Google's Neural Machine Translation System (2016),
// section 4.1; models/wordpiece in Hugging Face tokenizers.
class WordPieceModel : public TokenModel {
 public:
  explicit WordPieceModel(const WordPieceOptions& options);

  void Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const override;

  // Appends the ids of one word, not empty, of `chars` characters; unknown where those are more than max_word_chars().
  void EncodeWord(std::string_view word, size_t chars, std::vector<int32_t>& ids) const;
  size_t max_word_chars() const { return max_word_chars_; }

  // Reads words as their bytes come. What it appends is final once the word has ended.
  class Reader {
   public:
    Reader(const WordPieceModel& model, std::vector<int32_t>& ids) : model_(model), ids_(ids), start_(ids.size()) {}

    // Bytes of whole characters, `chars` of them.
    void Add(std::string_view bytes, size_t chars) {
      chars_ += chars;
      if (chars_ > model_.max_word_chars_) node_ = PieceTrie::kNone;
      for (const char byte : bytes) AddByte(byte);
    }
    bool is_empty() const { return chars_ == 0; }
    // The next word begins. Nothing: there was no word.
    void End() {
      if (is_empty()) return;
      while (node_ != model_.continuing_ && node_ != PieceTrie::kNone) Fail();
      if (node_ == PieceTrie::kNone) {
        ids_.resize(start_);
        ids_.push_back(model_.unknown_id_);
      }
      Start();
    }
    // ids have been appended between two words.
    void Start() {
      start_ = ids_.size();
      node_ = PieceTrie::kRoot;
      chars_ = 0;
    }
    // Look-ups in the trie so far.
    size_t steps() const { return steps_; }

   private:
    void AddByte(char byte) {
      while (node_ != PieceTrie::kNone) {
        ++steps_;
        const auto child = model_.pieces_.Child(node_, byte);
        if (child != PieceTrie::kNone) {
          node_ = child;
          return;
        }
        Fail();
      }
    }
    void Fail() {
      const Link link = model_.links_[node_];
      node_ = link.node;
      if (node_ == PieceTrie::kNone) return;
      const int32_t* const pops = &model_.pops_[link.pops];
      ids_.insert(ids_.end(), pops + 1, pops + 1 + *pops);
    }

    const WordPieceModel& model_;
    std::vector<int32_t>& ids_;
    size_t start_;                             // of the word's ids
    PieceTrie::Node node_ = PieceTrie::kRoot;  // kNone: the word is unknown
    size_t chars_ = 0;
    size_t steps_ = 0;
  };

 private:
  // What to do at a node without a child for the byte at hand.
  struct Link {
    PieceTrie::Node node = PieceTrie::kNone;  // where the bytes that are no pop lead; kNone: they begin with no piece
    uint32_t pops = 0;                        // in pops_
  };

  void AddLinks();

  PieceTrie pieces_;            // by kContinuing, the second time without their prefix, those that go on a word
  PieceTrie::Node continuing_;  // where these begin
  std::vector<Link> links_;     // by node
  std::vector<int32_t> pops_;   // lists of ids, each behind its length; the one at 0 is empty
  size_t max_word_chars_;
  int32_t unknown_id_;
};

}  // namespace tributary
