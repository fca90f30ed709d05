#include "engine/prepare/text/model/bpe.h"

#include <bit>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

// Words of more symbols are looked at for places to cut. Shorter ones are merged faster than looked at.
constexpr size_t kCutFrom = 16;

// The pieces of one symbol.
std::vector<int32_t> AllSymbols(const BpeOptions& options, int32_t none) {
  std::vector<int32_t> all(kCodePointCount, none);
  for (const auto& [piece, id] : options.vocabulary) {
    size_t end = 1;
    char32_t code = static_cast<uint8_t>(piece[0]);
    if (!options.byte_level) code = utf8::Decode(piece, end = 0);
    if (end == piece.size()) all[code] = id;
  }
  return all;
}

}  // namespace

// About sixteen bits for each: one in sixteen that are not there is said to be.
Bpe::Joints::Joints(size_t count)
    : shift_(64 - static_cast<uint32_t>(std::bit_width(count * 16 + 64))), bits_((size_t{1} << (64 - shift_)) / 64) {}

// What one call needs; reused from word to word.
struct Bpe::Scratch {
  std::vector<int32_t> symbols;
  std::vector<size_t> begins;  // where in the word each symbol begins, and the word's end
  MergeTable::Scratch merging;
};

Bpe::Bpe(const BpeOptions& options)
    : word_suffix_(options.word_suffix),
      unknown_id_(options.unknown_id.value_or(kNoId)),
      byte_level_(options.byte_level),
      fuse_unknown_(options.fuse_unknown),
      byte_fallback_(options.byte_fallback),
      ignore_merges_(options.ignore_merges),
      symbols_(AllSymbols(options, kNoId)),
      joints_(options.merges.size()) {
  size_t bytes = 0;
  for (const auto& [piece, id] : options.vocabulary) bytes += piece.size();
  text_.reserve(bytes);
  for (const auto& [piece, id] : options.vocabulary) text_ += piece;
  std::string_view rest = text_;
  for (const auto& [piece, id] : options.vocabulary) {
    pieces_[rest.substr(0, piece.size())] = id;
    rest.remove_prefix(piece.size());
  }
  byte_ids_.fill(kNoId);
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (options.byte_fallback) byte_ids_[byte] = Find(pieces_, absl::StrFormat("<0x%02X>", byte));
  }
}

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::Create(const BpeOptions& options) {
  std::unique_ptr<Bpe> bpe(new Bpe(options));
  if (auto status = bpe->AddMerges(options); !status.ok()) return status;
  bpe->FindWholeWords();
  return bpe;
}

absl::Status Bpe::AddMerges(const BpeOptions& options) {
  // The symbol a piece begins or ends with is that of its first or last character, but bytes of the fallback and the
  // unknown piece are symbols themselves.
  absl::flat_hash_set<int32_t> symbols{unknown_id_};
  if (byte_fallback_) symbols.insert(byte_ids_.begin(), byte_ids_.end());
  const auto first = [&](std::string_view piece) {
    size_t end = 0;
    const char32_t code = Next(piece, end);
    return Symbol(code, piece.substr(end) == word_suffix_);
  };
  const auto last = [&](std::string_view piece) {
    const size_t suffix = word_suffix_.size();
    const bool has_suffix = piece.size() > suffix && piece.substr(piece.size() - suffix) == word_suffix_;
    if (has_suffix) piece.remove_suffix(suffix);
    size_t start = byte_level_ ? piece.size() - 1 : utf8::StartOfLast(piece);
    return Symbol(Next(piece, start), has_suffix);
  };
  for (size_t rank = 0; rank < options.merges.size(); ++rank) {
    const auto& [left, right] = options.merges[rank];
    const int32_t left_id = Find(pieces_, left);
    const int32_t right_id = Find(pieces_, right);
    const int32_t merged_id = Find(pieces_, left + right);
    if (left_id == kNoId || right_id == kNoId || merged_id == kNoId) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " ('", left, "' and '", right,
                                                     "'): not all of the two and what they become are pieces"));
    }
    merges_.Add(left_id, right_id, {static_cast<uint32_t>(rank), merged_id});
    joints_.Add(symbols.contains(left_id) ? left_id : last(left), symbols.contains(right_id) ? right_id : first(right));
  }
  return absl::OkStatus();
}

void Bpe::FindWholeWords() {
  Scratch scratch;
  for (const auto& [piece, id] : pieces_) {
    auto word = piece;
    if (!word_suffix_.empty()) {
      if (word.size() <= word_suffix_.size() || word.substr(word.size() - word_suffix_.size()) != word_suffix_)
        continue;
      word.remove_suffix(word_suffix_.size());
    }
    ReadSymbols(word, scratch);
    if (merges_.Apply(scratch.symbols, scratch.merging) == 1 && scratch.symbols[0] == id) whole_words_[word] = id;
  }
  short_words_ = WordTable(WordTable::Words(whole_words_.begin(), whole_words_.end()));
}

int32_t Bpe::LastSymbol(char32_t code) const {
  std::string symbol;
  if (byte_level_) {
    symbol.push_back(static_cast<char>(code));
  } else {
    utf8::Append(code, symbol);
  }
  return Find(pieces_, symbol + word_suffix_);
}

void Bpe::ReadSymbols(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& begins = scratch.begins;
  // As many as there can be; those there are not are cut off below.
  symbols.resize(word.size() + word_suffix_.size());
  begins.resize(symbols.size() + 1);
  size_t count = 0;
  const auto add = [&](int32_t id, size_t begin) {
    symbols[count] = id;
    begins[count++] = begin;
  };
  bool was_unknown = false;
  for (size_t end = 0; end < word.size();) {
    const size_t begin = end;
    const char32_t code = Next(word, end);
    if (const int32_t id = Symbol(code, end == word.size()); id != kNoId) {
      add(id, begin);
      was_unknown = false;
    } else if (byte_fallback_) {
      for (size_t i = begin; i < end; ++i) add(byte_ids_[static_cast<uint8_t>(word[i])], i);
      if (end == word.size()) {
        for (const char c : word_suffix_) add(byte_ids_[static_cast<uint8_t>(c)], end);
      }
    } else if (unknown_id_ != kNoId && !(was_unknown && fuse_unknown_)) {
      add(unknown_id_, begin);
      was_unknown = true;
    }
  }
  begins[count] = word.size();
  symbols.resize(count);
  begins.resize(count + 1);
}

void Bpe::EncodeWord(std::string_view word, size_t enough, Scratch& scratch, std::vector<int32_t>& ids) const {
  ReadSymbols(word, scratch);
  auto& symbols = scratch.symbols;
  const auto merge = [&](size_t begin, size_t end) {
    const auto part = std::span(symbols).subspan(begin, end - begin);
    const size_t left = merges_.Apply(part, scratch.merging);
    ids.insert(ids.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(left));
  };
  if (symbols.size() < kCutFrom || !word_suffix_.empty()) {
    merge(0, symbols.size());
    return;
  }
  size_t begin = 0;
  for (size_t end = 1; end <= symbols.size() && ids.size() <= enough; ++end) {
    if (end < symbols.size() && joints_.May(symbols[end - 1], symbols[end])) continue;
    const size_t start = scratch.begins[begin];
    const int32_t whole =
        end - begin == 1 ? symbols[begin] : FindWhole(word.substr(start, scratch.begins[end] - start));
    if (whole != kNoId) {
      ids.push_back(whole);
    } else {
      merge(begin, end);
    }
    begin = end;
  }
}

void Bpe::Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const {
  Scratch scratch;
  for (const auto range : pieces.ranges()) {
    if (ids.size() > enough) return;
    const auto word = pieces.Text(range);
    const int32_t whole = ignore_merges_ ? Find(pieces_, word) : FindWhole(word);
    if (whole != kNoId) {
      ids.push_back(whole);
    } else {
      EncodeWord(word, enough, scratch, ids);
    }
  }
}

}  // namespace tributary
