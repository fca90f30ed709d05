#include "engine/prepare/text/model/word_piece_model.h"

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

WordPieceModel::WordPieceModel(WordPieceOptions options)
    : pieces_(std::move(options.vocabulary)),
      continuing_(pieces_.Walk(options.continuing_prefix)),
      max_word_chars_(options.max_word_chars),
      unknown_id_(options.unknown_id) {}

void WordPieceModel::Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const {
  for (const auto range : pieces.ranges()) {
    if (ids.size() > enough) return;
    const auto word = pieces.Text(range);
    EncodeWord(word, utf8::Count(word), ids);
  }
}

void WordPieceModel::EncodeWord(std::string_view word, size_t chars, std::vector<int32_t>& ids) const {
  const size_t start = ids.size();
  PieceTrie::Node node = chars > max_word_chars_ ? PieceTrie::kNone : PieceTrie::kRoot;
  while (!word.empty()) {
    const auto match = node == PieceTrie::kNone ? PieceTrie::Match{} : pieces_.Longest(node, word);
    if (match.length == 0) {
      // One part that is no piece makes the whole word unknown.
      ids.resize(start);
      ids.push_back(unknown_id_);
      return;
    }
    ids.push_back(match.id);
    word.remove_prefix(match.length);
    node = continuing_;
  }
}

}  // namespace tributary
