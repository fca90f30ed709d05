#include "engine/prepare/text/tokenizer_files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

using nlohmann::json;

// The parsing below speaks in exceptions, one type, turned into a status at the bottom of this file.
struct Unsupported {
  std::string what;
};

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

// An object from a file that may be missing: then an empty one.
json ReadJson(const std::string& folder, const std::string& name) {
  const auto bytes = ReadFile(folder + "/" + name);
  if (!bytes) return json::object();
  json value = json::parse(*bytes, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) throw Unsupported{name + " is no JSON object"};
  return value;
}

// A part's own type, "null" where the part is missing.
std::string TypeOf(const json& root, const char* part) {
  const auto found = root.find(part);
  if (found == root.end() || found->is_null()) return "null";
  return found->value("type", "without a type");
}

void RequireType(const json& root, const char* part, std::string_view supported) {
  if (const std::string type = TypeOf(root, part); type != supported) {
    throw Unsupported{absl::StrCat("tokenizer.json: ", part, " '", type, "' is not supported (only ",
                                   std::string(supported), " is)")};
  }
}

// null: as lowercase, which is what the reference does.
bool StripAccents(const json& part, bool lowercase) {
  const auto found = part.find("strip_accents");
  return found == part.end() || found->is_null() ? lowercase : found->get<bool>();
}

int32_t IdOf(const std::map<std::string, int32_t>& ids, const std::string& token, const std::string& file) {
  const auto found = ids.find(token);
  if (found == ids.end()) throw Unsupported{absl::StrCat(file, ": '", token, "' is not in the vocabulary")};
  return found->second;
}

void ReadTemplate(const json& processor, WordPieceModel& model) {
  const std::string type = processor.value("type", "without a type");
  if (type == "BertProcessing") {
    model.prefix_ids = {processor.at("cls").at(1).get<int32_t>()};
    model.suffix_ids = {processor.at("sep").at(1).get<int32_t>()};
    return;
  }
  if (type != "TemplateProcessing") {
    throw Unsupported{absl::StrCat("tokenizer.json: post_processor '", type,
                                   "' is not supported (only TemplateProcessing and BertProcessing are)")};
  }
  bool behind_text = false;
  for (const json& step : processor.at("single")) {
    if (step.contains("Sequence")) {
      if (behind_text) throw Unsupported{"tokenizer.json: post_processor repeats the text"};
      behind_text = true;
      continue;
    }
    const auto name = step.at("SpecialToken").at("id").get<std::string>();
    const auto ids = processor.at("special_tokens").at(name).at("ids").get<std::vector<int32_t>>();
    auto& side = behind_text ? model.suffix_ids : model.prefix_ids;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!behind_text) throw Unsupported{"tokenizer.json: post_processor has no place for the text"};
}

WordPieceModel FromTokenizerJson(const json& root) {
  WordPieceModel model;
  RequireType(root, "normalizer", "BertNormalizer");
  RequireType(root, "pre_tokenizer", "BertPreTokenizer");
  // Old files name no type of the model; its prefix tells.
  const json& part = root.at("model");
  if (part.contains("type") || !part.contains("continuing_subword_prefix")) RequireType(root, "model", "WordPiece");

  const json& normaliser = root.at("normalizer");
  model.normaliser.clean_text = normaliser.value("clean_text", true);
  model.normaliser.handle_chinese_chars = normaliser.value("handle_chinese_chars", true);
  model.normaliser.lowercase = normaliser.value("lowercase", true);
  model.normaliser.strip_accents = StripAccents(normaliser, model.normaliser.lowercase);

  model.continuing_prefix = part.value("continuing_subword_prefix", "##");
  model.max_word_chars = part.value("max_input_chars_per_word", size_t{100});
  const auto ids = part.at("vocab").get<std::map<std::string, int32_t>>();
  model.unknown_id = IdOf(ids, part.value("unk_token", "[UNK]"), "tokenizer.json");
  model.vocabulary.assign(ids.begin(), ids.end());

  for (const json& token : root.value("added_tokens", json::array())) {
    const auto content = token.at("content").get<std::string>();
    // lstrip and rstrip change no ids: the white space they take away would separate words, no more.
    for (const char* flag : {"normalized", "single_word"}) {
      if (token.value(flag, false)) {
        throw Unsupported{absl::StrCat("tokenizer.json: added token '", content, "' with ", flag, " is not supported")};
      }
    }
    if (!content.empty()) model.added.emplace_back(content, token.at("id").get<int32_t>());
  }
  if (root.contains("post_processor") && !root["post_processor"].is_null()) {
    ReadTemplate(root["post_processor"], model);
  }
  return model;
}

// Configurations write a special token as a string or as an object with its content.
std::string SpecialToken(const json& config, const char* key, const char* fallback) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return fallback;
  return found->is_object() ? found->at("content").get<std::string>() : found->get<std::string>();
}

WordPieceModel FromVocabularyFile(const std::string& lines, const json& config) {
  if (!config.value("do_basic_tokenize", true)) {
    throw Unsupported{"tokenizer_config.json: do_basic_tokenize false is not supported"};
  }
  if (config.contains("never_split") && !config["never_split"].is_null() && !config["never_split"].empty()) {
    throw Unsupported{"tokenizer_config.json: never_split is not supported"};
  }
  std::map<std::string, int32_t> ids;
  std::istringstream stream(lines);
  int32_t next = 0;
  for (std::string line; std::getline(stream, line); ++next) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) ids[line] = next;
  }
  WordPieceModel model;
  model.normaliser.lowercase = config.value("do_lower_case", true);
  model.normaliser.strip_accents = StripAccents(config, model.normaliser.lowercase);
  model.normaliser.handle_chinese_chars = config.value("tokenize_chinese_chars", true);
  const auto special = [&](const char* key, const char* fallback) {
    const std::string token = SpecialToken(config, key, fallback);
    const int32_t id = IdOf(ids, token, "vocab.txt");
    model.added.emplace_back(token, id);
    return id;
  };
  model.unknown_id = special("unk_token", "[UNK]");
  model.prefix_ids = {special("cls_token", "[CLS]")};
  model.suffix_ids = {special("sep_token", "[SEP]")};
  special("pad_token", "[PAD]");
  special("mask_token", "[MASK]");
  model.vocabulary.assign(ids.begin(), ids.end());
  return model;
}

// model_max_length may be 1e30, "no limit": read as a double and bounded.
size_t ReadMaxTokens(const std::string& folder, const json& config, const json& tokenizer_config,
                     const NormaliserOptions& normaliser) {
  const json sentence = ReadJson(folder, "sentence_bert_config.json");
  if (sentence.value("do_lower_case", false) && !normaliser.lowercase) {
    throw Unsupported{"sentence_bert_config.json: do_lower_case over a tokeniser that keeps case is not supported"};
  }
  static constexpr double kNoLimit = 1e9;
  const auto number = [](const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_number() ? std::min(found->get<double>(), kNoLimit) : kNoLimit;
  };
  double limit = number(sentence, "max_seq_length");
  if (limit == kNoLimit) limit = number(tokenizer_config, "model_max_length");
  limit = std::min(limit, number(config, "max_position_embeddings"));
  if (limit == kNoLimit || limit < 1) {
    throw Unsupported{
        "no length limit: none of max_seq_length (sentence_bert_config.json), model_max_length "
        "(tokenizer_config.json) and max_position_embeddings (config.json) is a number of at least 1"};
  }
  return static_cast<size_t>(limit);
}

// One past the largest id in use; config.json may reserve more rows in the embedding table, but not fewer.
size_t VocabularySize(const WordPieceModel& model, const json& config) {
  int64_t size = 0;
  const auto count = [&](int64_t id) {
    if (id < 0) throw Unsupported{absl::StrCat("token id ", id, " is negative")};
    size = std::max(size, id + 1);
  };
  for (const auto& [piece, id] : model.vocabulary) count(id);
  for (const auto& [content, id] : model.added) count(id);
  for (const int32_t id : model.prefix_ids) count(id);
  for (const int32_t id : model.suffix_ids) count(id);
  const auto rows = config.value("vocab_size", size);
  if (rows < size) {
    throw Unsupported{absl::StrCat("config.json: vocab_size ", rows, " is less than the tokeniser's ", size)};
  }
  return static_cast<size_t>(rows);
}

// A token may be listed twice, as one in two roles is; but not with two ids.
void MergeAddedTokens(WordPieceModel& model) {
  auto& added = model.added;
  std::sort(added.begin(), added.end());
  added.erase(std::unique(added.begin(), added.end()), added.end());
  const auto twice = std::adjacent_find(added.begin(), added.end(),
                                        [](const auto& one, const auto& next) { return one.first == next.first; });
  if (twice != added.end()) {
    throw Unsupported{
        absl::StrCat("added token '", twice->first, "' has two ids, ", twice->second, " and ", (twice + 1)->second)};
  }
}

TokenizerFiles Read(const std::string& folder) {
  const json config = ReadJson(folder, "config.json");
  const json tokenizer_config = ReadJson(folder, "tokenizer_config.json");
  const json tokenizer = ReadJson(folder, "tokenizer.json");
  TokenizerFiles files;
  if (!tokenizer.empty()) {
    files.model = FromTokenizerJson(tokenizer);
  } else {
    files.model = FromVocabularyFile(ReadFile(folder + "/vocab.txt").value_or(""), tokenizer_config);
  }
  MergeAddedTokens(files.model);
  files.max_tokens = ReadMaxTokens(folder, config, tokenizer_config, files.model.normaliser);
  if (files.max_tokens <= files.model.prefix_ids.size() + files.model.suffix_ids.size()) {
    throw Unsupported{absl::StrCat("a limit of ", files.max_tokens, " tokens leaves no room for text")};
  }
  files.vocabulary_size = VocabularySize(files.model, config);
  return files;
}

}  // namespace

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& hub_folder) {
  if (!std::ifstream(hub_folder + "/tokenizer.json") && !std::ifstream(hub_folder + "/vocab.txt")) {
    return absl::NotFoundError(absl::StrCat(hub_folder, " has neither tokenizer.json nor vocab.txt"));
  }
  try {
    return Read(hub_folder);
  } catch (const Unsupported& error) {
    return absl::FailedPreconditionError(absl::StrCat(hub_folder, ": ", error.what));
  } catch (const json::exception& error) {
    return absl::FailedPreconditionError(absl::StrCat(hub_folder, ": a tokeniser file is broken: ", error.what()));
  }
}

}  // namespace tributary
