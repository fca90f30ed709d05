#include "engine/prepare/text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/prepare/text/bert_tokenizer.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/model/read_model.h"
#include "engine/prepare/text/normalise/read_normaliser.h"
#include "engine/prepare/text/pipeline_tokenizer.h"
#include "engine/prepare/text/read_id.h"
#include "engine/prepare/text/split/read_splitter.h"

namespace tributary {
namespace {

using nlohmann::json;

// A part of the file; null where it is missing.
const json& Part(const json& root, const char* name) {
  static const json kNull;
  const auto found = root.find(name);
  return found == root.end() ? kNull : *found;
}

std::string TypeOf(const json& part) { return part.is_null() ? "null" : part.value("type", "without a type"); }

struct AddedTokenLists {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalised;
  int32_t largest_id = -1;
};

// The reference gives a token the id of the piece with its content, or else the next behind the vocabulary, whatever
// the file says: where it says something else, nobody can know which of the two is meant.
void CheckId(const std::string& content, int32_t id, const Vocabulary& vocabulary, int32_t& next) {
  const auto piece = vocabulary.Find(content);
  const int32_t expected = piece ? *piece : next++;
  if (id == expected) return;
  throw LoadError{absl::StrCat("tokenizer.json: added token '", content, "' has id ", id,
                               ", its place in the vocabulary is ", expected)};
}

AddedTokenLists ReadAddedTokens(const json& root, const Vocabulary& vocabulary, const Normaliser* normaliser) {
  AddedTokenLists lists;
  std::unordered_map<std::string, int32_t> ids;
  std::unordered_set<std::string> normalised_contents;
  int32_t next = vocabulary.size();
  for (const json& part : Part(root, "added_tokens")) {
    AddedToken token;
    token.content = part.at("content").get<std::string>();
    if (token.content.empty()) continue;
    token.id = ReadId(part.at("id"));
    token.single_word = part.value("single_word", false);
    token.lstrip = part.value("lstrip", false);
    token.rstrip = part.value("rstrip", false);
    // One in two roles may be listed twice.
    if (const auto [known, is_new] = ids.emplace(token.content, token.id); !is_new) {
      if (known->second == token.id) continue;
      throw LoadError{absl::StrCat("tokenizer.json: added token '", token.content, "' has two ids, ", known->second,
                                   " and ", token.id)};
    }
    CheckId(token.content, token.id, vocabulary, next);
    lists.largest_id = std::max(lists.largest_id, token.id);
    const bool normalised = part.value("normalized", true);
    const std::string content = token.content;
    if (normalised && normaliser != nullptr) normaliser->Apply(token.content);
    if (token.content.empty() || (normalised && !normalised_contents.insert(token.content).second)) {
      throw LoadError{
          absl::StrCat("tokenizer.json: added token '", content, "' is empty, or another one, once normalised")};
    }
    (normalised ? lists.normalised : lists.raw).push_back(std::move(token));
  }
  return lists;
}

int32_t Largest(const SpecialIds& special) {
  int32_t largest = -1;
  for (const auto* side : {&special.prefix, &special.suffix}) {
    for (const int32_t id : *side) {
      if (id < 0) throw LoadError{absl::StrCat("tokenizer.json: token id ", id, " is negative")};
      largest = std::max(largest, id);
    }
  }
  return largest;
}

}  // namespace

TokenizerParts BertParts(const NormaliserOptions& normaliser, const WordPieceOptions& model,
                         std::vector<AddedToken> added, SpecialIds special) {
  TokenizerParts parts;
  parts.largest_id = Largest(special);
  for (const auto& [piece, id] : model.vocabulary) parts.largest_id = std::max(parts.largest_id, id);
  for (const auto& token : added) parts.largest_added_id = std::max(parts.largest_added_id, token.id);
  parts.special = std::move(special);
  parts.lowercases = normaliser.lowercase;
  parts.tokenizer = std::make_unique<BertTokenizer>(normaliser, model, std::move(added));
  return parts;
}

TokenizerParts FromTokenizerJson(const nlohmann::json& root) {
  const json& model = Part(root, "model");
  if (model.is_null()) throw LoadError{"tokenizer.json: model 'null' is not supported"};
  auto normaliser = ReadNormaliser(Part(root, "normalizer"));
  auto split = ReadSplitter(Part(root, "pre_tokenizer"));
  if (split.asks_for_start && normaliser != nullptr) {
    throw LoadError{
        "tokenizer.json: pre_tokenizer 'Metaspace' with prepend_scheme first behind a normalizer is not supported"};
  }
  SpecialIds special = ReadPostProcessor(Part(root, "post_processor"));
  const Vocabulary vocabulary(model);
  AddedTokenLists added = ReadAddedTokens(root, vocabulary, normaliser.get());

  const bool is_bert = TypeOf(Part(root, "normalizer")) == "BertNormalizer" &&
                       TypeOf(Part(root, "pre_tokenizer")) == "BertPreTokenizer" && ModelType(model) == "WordPiece";
  if (is_bert && added.normalised.empty()) {
    return BertParts(ReadBertNormaliser(root["normalizer"]), ReadWordPiece(model), std::move(added.raw),
                     std::move(special));
  }
  auto read = ReadTokenModel(model, split.byte_level);
  TokenizerParts parts;
  parts.largest_id = std::max(read.largest_id, Largest(special));
  parts.largest_added_id = added.largest_id;
  parts.special = std::move(special);
  parts.tokenizer = std::make_unique<PipelineTokenizer>(
      PipelineTokenizer::Parts{std::move(added.raw), std::move(normaliser), std::move(added.normalised),
                               std::move(split.splitter), std::move(read.model)});
  return parts;
}

}  // namespace tributary
