#include "engine/prepare/text/word_piece.h"

#include <algorithm>

#include "engine/prepare/text/utf8.h"

namespace tributary {

// The text between two added tokens, on its way through normaliser, word split and pieces.
class WordPieceTokenizer::Segment {
 public:
  Segment(const WordPieceTokenizer& tokenizer, size_t enough, std::vector<int32_t>& ids)
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
    if (++chars_ <= tokenizer_.max_word_chars_) utf8::Append(code, word_);
  }

  void EndWord() {
    if (chars_ == 0) return;
    const size_t start = ids_.size();
    std::string_view rest = word_;
    PieceTrie::Node node = PieceTrie::kRoot;
    if (chars_ > tokenizer_.max_word_chars_) node = PieceTrie::kNone;
    while (!rest.empty()) {
      const auto match = node == PieceTrie::kNone ? PieceTrie::Match{} : tokenizer_.pieces_.Longest(node, rest);
      if (match.length == 0) {
        // One part that is no piece makes the whole word unknown.
        ids_.resize(start);
        ids_.push_back(tokenizer_.unknown_id_);
        break;
      }
      ids_.push_back(match.id);
      rest.remove_prefix(match.length);
      node = tokenizer_.continuing_;
    }
    word_.clear();
    chars_ = 0;
  }

  const WordPieceTokenizer& tokenizer_;
  const size_t enough_;
  std::vector<int32_t>& ids_;
  std::string word_;
  size_t chars_ = 0;                               // of the word, those not kept included
  std::vector<std::pair<uint8_t, char32_t>> run_;  // combining class, code point: not yet in canonical order
};

WordPieceTokenizer::WordPieceTokenizer(WordPieceModel model)
    : table_(model.normaliser),
      pieces_(std::move(model.vocabulary)),
      continuing_(pieces_.Walk(model.continuing_prefix)),
      added_(model.added),
      max_word_chars_(model.max_word_chars),
      unknown_id_(model.unknown_id) {
  for (const auto& [content, id] : model.added) {
    if (added_first_bytes_.find(content[0]) == std::string::npos) added_first_bytes_.push_back(content[0]);
  }
}

// The leftmost, of those the longest.
std::optional<WordPieceTokenizer::Found> WordPieceTokenizer::FindAdded(std::string_view text, size_t from) const {
  for (;; ++from) {
    // With one first byte (BERT: '[') the search is memchr.
    from = added_first_bytes_.size() == 1 ? text.find(added_first_bytes_[0], from)
                                          : text.find_first_of(added_first_bytes_, from);
    if (from == std::string_view::npos) return std::nullopt;
    const auto match = added_.Longest(PieceTrie::kRoot, text.substr(from));
    if (match.length > 0) return Found{from, match};
  }
}

void WordPieceTokenizer::Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const {
  Segment segment(*this, enough, ids);
  size_t position = 0;
  while (const auto found = FindAdded(text, position)) {
    if (!segment.Read(text.substr(position, found->position - position))) return;
    ids.push_back(found->match.id);
    position = found->position + found->match.length;
  }
  segment.Read(text.substr(position));
}

}  // namespace tributary
