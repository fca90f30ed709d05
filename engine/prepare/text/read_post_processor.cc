#include "engine/prepare/text/read_post_processor.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/read_id.h"

namespace tributary {
namespace {

using nlohmann::json;

SpecialIds ReadTemplate(const json& processor) {
  SpecialIds ids;
  bool behind_text = false;
  for (const json& step : processor.at("single")) {
    if (step.contains("Sequence")) {
      if (behind_text) throw LoadError{"tokenizer.json: post_processor repeats the text"};
      behind_text = true;
      continue;
    }
    const auto name = step.at("SpecialToken").at("id").get<std::string>();
    auto& side = behind_text ? ids.suffix : ids.prefix;
    for (const json& id : processor.at("special_tokens").at(name).at("ids")) side.push_back(ReadId(id));
  }
  if (!behind_text) throw LoadError{"tokenizer.json: post_processor has no place for the text"};
  return ids;
}

// Each goes around what those before it made.
SpecialIds ReadSequence(const json& processor) {
  SpecialIds ids;
  for (const json& step : processor.at("processors")) {
    if (step.value("type", "") == "Sequence") throw LoadError{"tokenizer.json: post_processor 'Sequence' is nested"};
    const SpecialIds outer = ReadPostProcessor(step);
    ids.prefix.insert(ids.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    ids.suffix.insert(ids.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  }
  return ids;
}

}  // namespace

SpecialIds ReadPostProcessor(const nlohmann::json& part) {
  if (part.is_null()) return {};
  const auto type = part.value("type", "without a type");
  if (type == "Sequence") return ReadSequence(part);
  if (type == "TemplateProcessing") return ReadTemplate(part);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{ReadId(part.at("cls").at(1))}, {ReadId(part.at("sep").at(1))}};
  }
  if (type == "ByteLevel") return {};  // offsets only
  throw LoadError{absl::StrCat("tokenizer.json: post_processor '", type, "' is not supported")};
}

}  // namespace tributary
