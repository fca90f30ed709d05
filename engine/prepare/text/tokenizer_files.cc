#include "engine/prepare/text/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/files/mapped_file.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/normalise/read_normaliser.h"
#include "engine/prepare/text/read_id.h"
#include "engine/prepare/text/tokenizer_json.h"

namespace tributary {
namespace {

using nlohmann::json;

constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;

std::string ReadVocabularyText(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) throw LoadError{std::string(file.status().message())};
  const std::string_view bytes = (*file)->bytes();
  if (bytes.size() > kMaxVocabularyBytes) {
    throw LoadError{absl::StrCat("vocab.txt has ", bytes.size(), " bytes, the limit is ", kMaxVocabularyBytes)};
  }
  return std::string(bytes);
}

// An object from a file that may be missing: then an empty one.
json ReadJson(const std::string& folder, const std::string& name) {
  auto value = ReadJsonFile(folder + "/" + name);
  if (absl::IsNotFound(value.status())) return json::object();
  if (!value.ok()) throw LoadError{std::string(value.status().message())};
  if (!value->is_object()) throw LoadError{name + " is no JSON object"};
  return *std::move(value);
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Configurations write a special token as a string or as an object with its content.
std::string SpecialToken(const json& config, const char* key, const char* fallback) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return fallback;
  return found->is_object() ? found->at("content").get<std::string>() : found->get<std::string>();
}

// One piece a line, the line is the id; the last of equals counts.
std::map<std::string, int32_t> ReadVocabularyFile(const std::string& lines) {
  std::map<std::string, int32_t> ids;
  std::istringstream stream(lines);
  int32_t next = 0;
  for (std::string line; std::getline(stream, line); ++next) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) ids[line] = next;
  }
  return ids;
}

TokenizerParts FromVocabularyFile(const std::string& lines, const json& config) {
  if (!config.value("do_basic_tokenize", true)) {
    throw LoadError{"tokenizer_config.json: do_basic_tokenize false is not supported"};
  }
  if (config.contains("never_split") && !config["never_split"].is_null() && !config["never_split"].empty()) {
    throw LoadError{"tokenizer_config.json: never_split is not supported"};
  }
  const auto ids = ReadVocabularyFile(lines);
  NormaliserOptions normaliser;
  normaliser.lowercase = config.value("do_lower_case", true);
  normaliser.strip_accents = ReadStripAccents(config, normaliser.lowercase);
  normaliser.handle_chinese_chars = config.value("tokenize_chinese_chars", true);
  std::map<std::string, int32_t> added;
  const auto special = [&](const char* key, const char* fallback) {
    const std::string token = SpecialToken(config, key, fallback);
    const auto found = ids.find(token);
    if (found == ids.end()) throw LoadError{absl::StrCat("vocab.txt: '", token, "' is not in the vocabulary")};
    added[token] = found->second;
    return found->second;
  };
  WordPieceOptions model;
  model.unknown_id = special("unk_token", "[UNK]");
  SpecialIds around{{special("cls_token", "[CLS]")}, {special("sep_token", "[SEP]")}};
  special("pad_token", "[PAD]");
  special("mask_token", "[MASK]");
  model.vocabulary.assign(ids.begin(), ids.end());
  std::vector<AddedToken> tokens;
  tokens.reserve(added.size());
  for (const auto& [content, id] : added) tokens.push_back({.content = content, .id = id});
  return BertParts(normaliser, model, std::move(tokens), std::move(around));
}

// Models of two towers say it of their text tower.
const json& TextConfig(const json& config) {
  const auto found = config.find("text_config");
  return found != config.end() && found->is_object() ? *found : config;
}

// Families that leave out what is their default, and one that pads every text to all its positions.
struct TowerLength {
  std::string_view model_type;
  double positions;
  bool pads;
};
constexpr TowerLength kTowerLengths[] = {
    {"clip", 77, false},
    {"clip_text_model", 77, false},
    {"siglip", 64, true},
    {"siglip_text_model", 64, true},
};

const TowerLength* TowerLengthOf(const json& root_config, const json& config) {
  const std::string type = config.value("model_type", root_config.value("model_type", ""));
  const auto* const found = std::find_if(std::begin(kTowerLengths), std::end(kTowerLengths),
                                         [&](const TowerLength& tower) { return tower.model_type == type; });
  return found == std::end(kTowerLengths) ? nullptr : found;
}

// Positions a text can have. RoBERTa's family counts from behind its padding id.
double Positions(const json& config, double fallback) {
  const auto found = config.find("max_position_embeddings");
  if (found == config.end() || !found->is_number()) return fallback;
  static constexpr std::array kCountsFromPadding = {"roberta", "xlm-roberta", "camembert", "mpnet"};
  const auto type = config.value("model_type", "");
  const bool counts = std::find(kCountsFromPadding.begin(), kCountsFromPadding.end(), type) != kCountsFromPadding.end();
  const auto padding = config.find("pad_token_id");
  const bool said = padding != config.end() && !padding->is_null();
  if (counts && said && !padding->is_number()) {
    throw LoadError{absl::StrCat("config.json: pad_token_id must be a number, is ", Shown(*padding))};
  }
  return found->get<double>() - (counts ? (said ? padding->get<double>() : 1.0) + 1 : 0);
}

// model_max_length may be 1e30, "no limit": read as a double and bounded.
size_t ReadMaxTokens(const std::string& folder, const json& config, const json& tokenizer_config,
                     const TowerLength* tower, bool lowercases) {
  const json sentence = ReadJson(folder, "sentence_bert_config.json");
  if (sentence.value("do_lower_case", false) && !lowercases) {
    throw LoadError{"sentence_bert_config.json: do_lower_case over a tokeniser that keeps case is not supported"};
  }
  static constexpr double kNoLimit = 1e9;
  const auto number = [](const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_number() ? std::min(found->get<double>(), kNoLimit) : kNoLimit;
  };
  double limit = number(sentence, "max_seq_length");
  if (limit == kNoLimit) limit = number(tokenizer_config, "model_max_length");
  limit = std::min(limit, Positions(config, tower == nullptr ? kNoLimit : tower->positions));
  if (limit == kNoLimit || limit < 1) {
    throw LoadError{
        "no length limit: none of max_seq_length (sentence_bert_config.json), model_max_length "
        "(tokenizer_config.json) and max_position_embeddings (config.json) is a number of at least 1"};
  }
  return static_cast<size_t>(limit);
}

// config.json may have more rows in the embedding table than the tokeniser has ids, but not fewer. Only added tokens
// may go without, as Gemma's image token does: they are refused where they are met.
void SetVocabularySize(const TokenizerParts& parts, const json& config, TokenizerFiles& files) {
  const int64_t needed = parts.largest_id + int64_t{1};
  const auto rows = config.value("vocab_size", std::max(needed, parts.largest_added_id + int64_t{1}));
  if (rows < needed) {
    throw LoadError{absl::StrCat("config.json: vocab_size ", rows, " is less than the tokeniser's ", needed)};
  }
  files.vocabulary_size = static_cast<size_t>(rows);
  files.has_rowless_ids = parts.largest_added_id >= rows;
}

// The id of tokenizer_config.json's pad_token, looked up in tokenizer.json; else config.json's pad_token_id.
int32_t ReadPadId(const json& tokenizer_config, const json& tokenizer, const json& config) {
  const std::string token = SpecialToken(tokenizer_config, "pad_token", "");
  if (!token.empty()) {
    if (tokenizer.contains("added_tokens")) {
      for (const json& added : tokenizer["added_tokens"]) {
        if (added.at("content") == token) return ReadId(added.at("id"));
      }
    }
    const json& vocabulary = tokenizer.at("model").at("vocab");
    if (vocabulary.is_object() && vocabulary.contains(token)) return ReadId(vocabulary[token]);
    if (vocabulary.is_array()) {  // Unigram's: [piece, score], the place is the id
      for (size_t id = 0; id < vocabulary.size(); ++id) {
        if (vocabulary[id].at(0) == token) return static_cast<int32_t>(id);
      }
    }
    throw LoadError{absl::StrCat("tokenizer_config.json: pad_token '", token, "' is not in tokenizer.json")};
  }
  const auto found = config.find("pad_token_id");
  if (found != config.end() && found->is_number_unsigned()) return ReadId(*found);
  throw LoadError{
      "the model's texts are padded, but neither pad_token (tokenizer_config.json) nor pad_token_id (config.json) says "
      "with what"};
}

void SetPadding(const json& tokenizer_config, const json& tokenizer, const json& config, TokenizerFiles& files) {
  if (tokenizer_config.value("padding_side", "right") != "right") {
    throw LoadError{"tokenizer_config.json: padding_side must be right, as the model's texts are padded"};
  }
  files.padded_length = files.max_tokens;
  files.pad_id = ReadPadId(tokenizer_config, tokenizer, config);
  if (files.pad_id < 0 || static_cast<size_t>(files.pad_id) >= files.vocabulary_size) {
    throw LoadError{
        absl::StrCat("the padding token has id ", files.pad_id, ", the vocabulary ", files.vocabulary_size)};
  }
}

TokenizerFiles Read(const std::string& folder) {
  const json root_config = ReadJson(folder, "config.json");
  const json& config = TextConfig(root_config);
  const json tokenizer_config = ReadJson(folder, "tokenizer_config.json");
  const json tokenizer = ReadJson(folder, "tokenizer.json");
  TokenizerParts parts = tokenizer.empty()
                             ? FromVocabularyFile(ReadVocabularyText(folder + "/vocab.txt"), tokenizer_config)
                             : FromTokenizerJson(tokenizer);
  TokenizerFiles files;
  const TowerLength* const tower = TowerLengthOf(root_config, config);
  files.max_tokens = ReadMaxTokens(folder, config, tokenizer_config, tower, parts.lowercases);
  if (files.max_tokens <= parts.special.prefix.size() + parts.special.suffix.size()) {
    throw LoadError{absl::StrCat("a limit of ", files.max_tokens, " tokens leaves no room for text")};
  }
  SetVocabularySize(parts, config, files);
  if (tower != nullptr && tower->pads) SetPadding(tokenizer_config, tokenizer, config, files);
  files.tokenizer = std::move(parts.tokenizer);
  files.special = std::move(parts.special);
  return files;
}

}  // namespace

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& hub_folder) {
  if (!Exists(hub_folder + "/tokenizer.json") && !Exists(hub_folder + "/vocab.txt")) {
    const bool pieces = Exists(hub_folder + "/spiece.model");
    return absl::NotFoundError(absl::StrCat(hub_folder, " has neither tokenizer.json nor vocab.txt",
                                            pieces
                                                ? "; spiece.model is not read: AutoTokenizer's save_pretrained makes "
                                                  "tokenizer.json of it"
                                                : ""));
  }
  try {
    return Read(hub_folder);
  } catch (const LoadError& error) {
    return absl::FailedPreconditionError(absl::StrCat(hub_folder, ": ", error.what));
  } catch (const json::exception& error) {
    return absl::FailedPreconditionError(absl::StrCat(hub_folder, ": a tokeniser file is broken: ", error.what()));
  }
}

}  // namespace tributary
