#include "engine/prepare/text/model/read_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/model/bpe.h"
#include "engine/prepare/text/model/byte_alphabet.h"
#include "engine/prepare/text/model/unigram.h"
#include "engine/prepare/text/read_id.h"

namespace tributary {
namespace {

using nlohmann::json;

const json& PiecesOf(const json& part) {
  const json& vocab = part.at("vocab");
  if (!vocab.is_object()) throw LoadError{"tokenizer.json: the model's vocab is broken: it is no object"};
  return vocab;
}

// Null and missing are the same.
template <class Value>
Value ValueOr(const json& part, const char* key, const Value& fallback) {
  const auto found = part.find(key);
  return found == part.end() || found->is_null() ? fallback : found->get<Value>();
}

void RefuseBpeOptions(const json& part) {
  if (ValueOr(part, "dropout", 0.0) != 0.0)
    throw LoadError{"tokenizer.json: model 'BPE' with dropout is not supported"};
  if (!ValueOr(part, "continuing_subword_prefix", std::string()).empty()) {
    throw LoadError{"tokenizer.json: model 'BPE' with continuing_subword_prefix is not supported"};
  }
}

std::pair<std::string, std::string> ReadMerge(const json& merge) {
  if (merge.is_array()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
  const auto line = merge.get<std::string>();
  const size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
    throw LoadError{absl::StrCat("tokenizer.json: merge '", line, "' is not two pieces and a space between them")};
  }
  return {line.substr(0, space), line.substr(space + 1)};
}

class BpeReader {
 public:
  BpeReader(const json& part, bool byte_level) : part_(part) {
    options_.byte_level = byte_level;
    options_.word_suffix = ValueOr(part, "end_of_word_suffix", std::string());
    options_.fuse_unknown = ValueOr(part, "fuse_unk", false);
    options_.byte_fallback = ValueOr(part, "byte_fallback", false);
    options_.ignore_merges = ValueOr(part, "ignore_merges", false);
  }

  ReadModel Read() {
    RefuseBpeOptions(part_);
    ReadModel result;
    for (const auto& [piece, id] : PiecesOf(part_).items()) {
      const int32_t number = ReadId(id);
      result.largest_id = std::max(result.largest_id, number);
      // A piece in characters that stand for no byte is never met.
      if (auto bytes = ToBytes(piece); bytes && !bytes->empty())
        options_.vocabulary.emplace_back(*std::move(bytes), number);
    }
    ReadMerges();
    ReadUnknown();
    auto bpe = Bpe::Create(options_);
    if (!bpe.ok()) throw LoadError{absl::StrCat("tokenizer.json: model 'BPE': ", bpe.status().message())};
    result.model = *std::move(bpe);
    return result;
  }

 private:
  std::optional<std::string> ToBytes(const std::string& piece) const {
    return options_.byte_level ? alphabet_.ToBytes(piece) : piece;
  }

  void ReadMerges() {
    for (const json& merge : part_.at("merges")) {
      // Not a merge: the first line of the file these once were in.
      if (merge.is_string() && merge.get_ref<const std::string&>().rfind("#version", 0) == 0) continue;
      const auto [left, right] = ReadMerge(merge);
      auto left_bytes = ToBytes(left);
      auto right_bytes = ToBytes(right);
      if (left_bytes && right_bytes) options_.merges.emplace_back(*std::move(left_bytes), *std::move(right_bytes));
    }
  }

  // Which symbols are unknown must be clear before the first text.
  void ReadUnknown() {
    if (options_.byte_level) {
      if (KnowsEveryByte()) {
        options_.byte_fallback = false;
        return;
      }
      if (options_.byte_fallback)
        throw LoadError{"tokenizer.json: model 'BPE': byte_fallback of ByteLevel is not supported"};
    } else if (options_.byte_fallback) {
      for (int byte = 0; byte < 256; ++byte) {
        if (const auto name = absl::StrFormat("<0x%02X>", byte); !part_.at("vocab").contains(name)) {
          throw LoadError{absl::StrCat("tokenizer.json: model 'BPE' with byte_fallback has no piece '", name, "'")};
        }
      }
      return;
    }
    const auto unknown = ValueOr(part_, "unk_token", std::string());
    if (unknown.empty()) return;
    const auto found = part_.at("vocab").find(unknown);
    if (found == part_.at("vocab").end()) {
      throw LoadError{absl::StrCat("tokenizer.json: '", unknown, "' is not in the vocabulary")};
    }
    options_.unknown_id = ReadId(*found);
  }

  bool KnowsEveryByte() const {
    std::array<bool, 256> inside{};
    std::array<bool, 256> at_end{};
    for (const auto& [piece, id] : options_.vocabulary) {
      const auto byte = static_cast<uint8_t>(piece[0]);
      if (piece.size() == 1) inside[byte] = true;
      if (piece.substr(1) == options_.word_suffix) at_end[byte] = true;
    }
    const auto all = [](const auto& known) { return std::count(known.begin(), known.end(), true) == 256; };
    return all(inside) && all(at_end);
  }

  const json& part_;
  ByteAlphabet alphabet_;
  BpeOptions options_;
};

ReadModel ReadUnigram(const json& part) {
  UnigramOptions options;
  for (const json& entry : part.at("vocab")) {
    options.pieces.emplace_back(entry.at(0).get<std::string>(), entry.at(1).get<double>());
  }
  const auto unknown = ValueOr<int64_t>(part, "unk_id", -1);
  if (unknown < 0 || static_cast<size_t>(unknown) >= options.pieces.size()) {
    throw LoadError{"tokenizer.json: model 'Unigram' without an unk_id inside its vocabulary is not supported"};
  }
  options.unknown_id = static_cast<int32_t>(unknown);
  options.byte_fallback = ValueOr(part, "byte_fallback", false);
  return {std::make_unique<Unigram>(options), static_cast<int32_t>(options.pieces.size()) - 1};
}

}  // namespace

// Old files tell by what else is there.
std::string ModelType(const nlohmann::json& part) {
  if (part.is_null()) return "null";
  const char* guess = "without a type";
  if (part.contains("continuing_subword_prefix")) guess = "WordPiece";
  if (part.contains("merges")) guess = "BPE";
  if (part.contains("vocab") && part["vocab"].is_array()) guess = "Unigram";
  return part.value("type", guess);
}

WordPieceOptions ReadWordPiece(const nlohmann::json& part) {
  WordPieceOptions options;
  options.continuing_prefix = part.value("continuing_subword_prefix", "##");
  options.max_word_chars = part.value("max_input_chars_per_word", size_t{100});
  const json& vocab = PiecesOf(part);
  const auto unknown = part.value("unk_token", "[UNK]");
  if (!vocab.contains(unknown))
    throw LoadError{absl::StrCat("tokenizer.json: '", unknown, "' is not in the vocabulary")};
  options.unknown_id = ReadId(vocab[unknown]);
  for (const auto& [piece, id] : vocab.items()) {
    if (!piece.empty()) options.vocabulary.emplace_back(piece, ReadId(id));
  }
  return options;
}

ReadModel ReadTokenModel(const nlohmann::json& part, bool byte_level) {
  const auto type = ModelType(part);
  if (type == "BPE") return BpeReader(part, byte_level).Read();
  if (type != "WordPiece" && type != "Unigram")
    throw LoadError{absl::StrCat("tokenizer.json: model '", type, "' is not supported")};
  if (byte_level)
    throw LoadError{absl::StrCat("tokenizer.json: model '", type, "' behind 'ByteLevel' is not supported")};
  if (type == "Unigram") return ReadUnigram(part);
  const auto options = ReadWordPiece(part);
  ReadModel result;
  for (const auto& [piece, id] : options.vocabulary) result.largest_id = std::max(result.largest_id, id);
  result.model = std::make_unique<WordPieceModel>(options);
  return result;
}

Vocabulary::Vocabulary(const nlohmann::json& part)
    : vocab_(part.at("vocab").is_array() ? part.at("vocab") : PiecesOf(part)),
      size_(static_cast<int32_t>(vocab_.size())) {
  if (!vocab_.is_array()) return;
  int32_t id = 0;
  for (const json& entry : vocab_) listed_[entry.at(0).get_ref<const std::string&>()] = id++;
}

std::optional<int32_t> Vocabulary::Find(const std::string& piece) const {
  if (vocab_.is_object()) {
    const auto found = vocab_.find(piece);
    return found == vocab_.end() ? std::nullopt : std::optional(ReadId(*found));
  }
  const auto found = listed_.find(piece);
  return found == listed_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tributary
