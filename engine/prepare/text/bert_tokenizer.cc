#include "engine/prepare/text/bert_tokenizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/prepare/text/ascii_word.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

// The pieces that are whole words as ReadAsciiWord gives them.
WordTable AsciiWords(const WordPieceOptions& model, uint8_t fold) {
  WordTable::Words words;
  for (const auto& [piece, id] : model.vocabulary) {
    const AsciiWord word = ReadAsciiWord(piece, 0, fold);
    if (word.length <= std::min(model.max_word_chars, WordKey::kMost) && word.view() == piece)
      words.emplace_back(piece, id);
  }
  return WordTable(words);
}

}  // namespace

// The text between two added tokens, on its way through normaliser, word split and pieces.
class BertTokenizer::Segment {
 public:
  Segment(const BertTokenizer& tokenizer, size_t enough, std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), enough_(enough), ids_(ids), word_(tokenizer.model_, ids) {}

  // False: enough ids.
  bool Read(std::string_view text) {
    for (size_t i = 0; i < text.size() && ids_.size() <= enough_;) {
      if (ReadAscii(text, i)) continue;
      ReadWord(text, i);
    }
    return ids_.size() <= enough_;
  }

 private:
  // Between two words: reads a word of ASCII, a sign or a space. False: what comes is something else.
  bool ReadAscii(std::string_view text, size_t& i) {
    const auto first = static_cast<uint8_t>(text[i]);
    if (first >= 0x80) return false;
    const auto& alone = tokenizer_.alone_[first];
    if (alone.kind == Alone::kSpace) {
      ++i;
      return true;
    }
    if (alone.kind == Alone::kSign) {
      ids_.push_back(alone.id);
      ++i;
      return true;
    }
    if (alone.kind != Alone::kWordChar) return false;
    const AsciiWord word = ReadAsciiWord(text, i, tokenizer_.fold_);
    const size_t end = i + word.length;
    if (word.length > WordKey::kMost || !EndsWord(text, end)) return false;
    i = end;
    if (const int32_t id = tokenizer_.words_.Find(word.Key()); id != WordTable::kNoId) {
      ids_.push_back(id);
    } else {
      tokenizer_.model_.EncodeWord(word.view(), word.length, ids_);
    }
    // Most words have a space behind them.
    if (i < text.size() && text[i] == ' ') ++i;
    return true;
  }

  bool EndsWord(std::string_view text, size_t at) const {
    if (at == text.size()) return true;
    if (const auto byte = static_cast<uint8_t>(text[at]); byte < 0x80) {
      return tokenizer_.alone_[byte].kind <= Alone::kSign;
    }
    const auto kind = tokenizer_.table_.Find(utf8::Decode(text, at)).kind;
    return kind == CharTable::Kind::kSpace || kind == CharTable::Kind::kIsolated;
  }

  // Reads a character and, where it begins a word, on to the word's end.
  void ReadWord(std::string_view text, size_t& i) {
    word_.Start();
    do {
      const char32_t code = utf8::Decode(text, i);
      Put(code, tokenizer_.table_.Find(code));
    } while (i < text.size() && !(word_.is_empty() && run_.empty()));
    if (i < text.size()) return;
    SortRun();
    word_.End();
  }

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
        word_.End();
        break;
      case Kind::kIsolated:
        word_.End();
        Add(code);
        word_.End();
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
    const auto bytes = utf8::Encode(code);
    word_.Add(bytes.view(), 1);
  }

  const BertTokenizer& tokenizer_;
  const size_t enough_;
  std::vector<int32_t>& ids_;
  WordPieceModel::Reader word_;
  std::vector<std::pair<uint8_t, char32_t>> run_;  // combining class, code point: not yet in canonical order
};

BertTokenizer::BertTokenizer(const NormaliserOptions& normaliser, const WordPieceOptions& model,
                             std::vector<AddedToken> added)
    : table_(normaliser),
      model_(model),
      fold_(normaliser.lowercase ? 0x20 : 0),
      words_(AsciiWords(model, fold_)),
      added_(std::move(added)) {
  for (size_t i = 0; i < alone_.size(); ++i) {
    const auto code = static_cast<char32_t>(i);
    const char byte = static_cast<char>(i);
    if (ReadAsciiWord({&byte, 1}, 0, fold_).length == 1) {
      alone_[i].kind = Alone::kWordChar;
    } else if (table_.Find(code).kind == CharTable::Kind::kSpace) {
      alone_[i].kind = Alone::kSpace;
    } else if (table_.Find(code).kind == CharTable::Kind::kIsolated) {
      std::vector<int32_t> ids;
      model_.EncodeWord({&byte, 1}, 1, ids);
      alone_[i] = {Alone::kSign, ids[0]};
    }
  }
}

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
