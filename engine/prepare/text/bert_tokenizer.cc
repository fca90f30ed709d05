#include "engine/prepare/text/bert_tokenizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

// The text between two added tokens, on its way through normaliser, word split and pieces.
class BertTokenizer::Segment {
 public:
  Segment(const BertTokenizer& tokenizer, size_t enough, std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), enough_(enough), ids_(ids) {}

  // False: enough ids.
  bool Read(std::string_view text) {
    for (size_t i = 0; i < text.size() && ids_.size() <= enough_;) {
      const char32_t code = utf8::Decode(text, i);
      Put(code, tokenizer_.table_.Find(code));
    }
    SortRun();
    EndWord();
    return ids_.size() <= enough_;
  }

 private:
  void Put(char32_t code, CharTable::Entry entry) {
    using Kind = CharTable::Kind;
    if (entry.kind == Kind::kNothing) return;
    if (entry.kind == Kind::kReorder) {
      run_.emplace_back(static_cast<uint8_t>(entry.value), code);
      return;
    }
    if (entry.kind == Kind::kSequence) {
      for (const char32_t part : tokenizer_.table_.Sequence(entry)) Put(part, tokenizer_.table_.Find(part));
      return;
    }
    if (!run_.empty()) SortRun();
    switch (entry.kind) {
      case Kind::kMapped:
        Add(entry.value);
        break;
      case Kind::kSpace:
        EndWord();
        break;
      case Kind::kIsolated:
        EndWord();
        Add(code);
        EndWord();
        break;
      case Kind::kBoundary:
        break;
      default:
        Add(code);
    }
  }

  // Canonical order of what decomposition left side by side.
  void SortRun() {
    std::stable_sort(run_.begin(), run_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [combining_class, code] : run_) Add(code);
    run_.clear();
  }

  void Add(char32_t code) {
    // One char too many makes the word unknown, so no more than that is kept.
    if (++chars_ <= tokenizer_.model_.max_word_chars()) utf8::Append(code, word_);
  }

  void EndWord() {
    if (chars_ == 0) return;
    tokenizer_.model_.EncodeWord(word_, chars_, ids_);
    word_.clear();
    chars_ = 0;
  }

  const BertTokenizer& tokenizer_;
  const size_t enough_;
  std::vector<int32_t>& ids_;
  std::string word_;
  size_t chars_ = 0;                               // of the word, those not kept included
  std::vector<std::pair<uint8_t, char32_t>> run_;  // combining class, code point: not yet in canonical order
};

BertTokenizer::BertTokenizer(const NormaliserOptions& normaliser, WordPieceOptions model, std::vector<AddedToken> added)
    : table_(normaliser), model_(std::move(model)), added_(std::move(added)) {}

void BertTokenizer::Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const {
  Segment segment(*this, enough, ids);
  AddedTokens::Reader reader(added_, text);
  while (const auto part = reader.Next()) {
    if (part->id != AddedTokens::Part::kText) {
      ids.push_back(part->id);
    } else if (!segment.Read(text.substr(part->begin, part->end - part->begin))) {
      return;
    }
  }
}

}  // namespace tributary
