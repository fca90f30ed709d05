#include "engine/prepare/text/normalise/read_normaliser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/normalise/char_mapper.h"
#include "engine/prepare/text/normalise/edge_steps.h"
#include "engine/prepare/text/normalise/normal_form.h"
#include "engine/prepare/text/normalise/precompiled.h"
#include "engine/prepare/text/pattern/read_pattern.h"

namespace tributary {
namespace {

using nlohmann::json;
using Steps = std::vector<std::unique_ptr<Normaliser>>;

// Sequences of sequences are read this deep; nobody writes more than one.
constexpr int kDeepest = 4;

// Texts are bounded before they are normalised. Models replace a blank by three bytes, once.
constexpr double kMaxGrowth = 256;

std::unique_ptr<Normaliser> Read(const json& part, int depth);

std::unique_ptr<Normaliser> Map(CharMapper::Rules rules) { return std::make_unique<CharMapper>(std::move(rules)); }

std::unique_ptr<Normaliser> ReadBert(const json& part) {
  const NormaliserOptions options = ReadBertNormaliser(part);
  Steps steps;
  if (options.clean_text) steps.push_back(Map(CleanTextRules()));
  if (options.handle_chinese_chars) steps.push_back(Map(ChineseCharsRules()));
  if (options.strip_accents) {
    steps.push_back(std::make_unique<NormalForm>(NormalForm::Options{}));
    steps.push_back(Map(NonSpacingMarksRules()));
  }
  if (options.lowercase) steps.push_back(Map(LowercaseRules()));
  return std::make_unique<NormaliserSequence>(std::move(steps));
}

std::unique_ptr<Normaliser> ReadPrecompiled(const json& part) {
  const auto found = part.find("precompiled_charsmap");
  // Written where the model has none.
  if (found == part.end() || found->is_null() || found->get<std::string>().empty()) {
    throw LoadError{"tokenizer.json: normalizer 'Precompiled' without a precompiled_charsmap"};
  }
  std::string charsmap;
  if (!absl::Base64Unescape(found->get<std::string>(), &charsmap)) {
    throw LoadError{"tokenizer.json: normalizer 'Precompiled': precompiled_charsmap is not base64"};
  }
  auto precompiled = Precompiled::Create(charsmap);
  if (!precompiled.ok()) {
    throw LoadError{absl::StrCat("tokenizer.json: normalizer 'Precompiled': ", precompiled.status().message())};
  }
  return std::make_unique<Precompiled>(*std::move(precompiled));
}

std::unique_ptr<Normaliser> ReadSequence(const json& part, int depth) {
  if (depth == kDeepest) throw LoadError{"tokenizer.json: normalizer 'Sequence' is nested too deeply"};
  Steps steps;
  for (const json& step : part.at("normalizers")) steps.push_back(Read(step, depth + 1));
  return std::make_unique<NormaliserSequence>(std::move(steps));
}

std::unique_ptr<Normaliser> Read(const json& part, int depth) {
  const auto type = part.value("type", "without a type");
  if (type == "Sequence") return ReadSequence(part, depth);
  if (type == "NFC") return std::make_unique<NormalForm>(NormalForm::Options{.compatibility = false, .compose = true});
  if (type == "NFD") return std::make_unique<NormalForm>(NormalForm::Options{.compatibility = false, .compose = false});
  if (type == "NFKC") return std::make_unique<NormalForm>(NormalForm::Options{.compatibility = true, .compose = true});
  if (type == "NFKD") return std::make_unique<NormalForm>(NormalForm::Options{.compatibility = true, .compose = false});
  if (type == "Lowercase") return Map(LowercaseRules());
  if (type == "StripAccents") return Map(StripAccentsRules());
  if (type == "Nmt") return Map(NmtRules());
  if (type == "BertNormalizer") return ReadBert(part);
  if (type == "Precompiled") return ReadPrecompiled(part);
  if (type == "Strip") return std::make_unique<Strip>(part.value("strip_left", true), part.value("strip_right", true));
  if (type == "Prepend") return std::make_unique<Prepend>(part.at("prepend").get<std::string>());
  if (type == "Replace") {
    return std::make_unique<Replace>(ReadPattern(part.at("pattern"), "tokenizer.json: normalizer 'Replace'"),
                                     part.at("content").get<std::string>());
  }
  throw LoadError{absl::StrCat("tokenizer.json: normalizer '", type, "' is not supported")};
}

// By Replace steps of one byte each. Those that were Read: of the expected form, and not too deep.
double WorstGrowth(const json& part) {
  const auto type = part.value("type", "");
  double growth = 1;
  if (type == "Sequence") {
    for (const json& step : part.at("normalizers")) growth *= WorstGrowth(step);
  } else if (type == "Replace") {
    growth = static_cast<double>(std::max<size_t>(1, part.at("content").get_ref<const std::string&>().size()));
  }
  return growth;
}

}  // namespace

NormaliserOptions ReadBertNormaliser(const json& part) {
  NormaliserOptions options;
  options.clean_text = part.value("clean_text", true);
  options.handle_chinese_chars = part.value("handle_chinese_chars", true);
  options.lowercase = part.value("lowercase", true);
  options.strip_accents = ReadStripAccents(part, options.lowercase);
  return options;
}

bool ReadStripAccents(const json& part, bool lowercase) {
  const auto found = part.find("strip_accents");
  return found == part.end() || found->is_null() ? lowercase : found->get<bool>();
}

std::unique_ptr<Normaliser> ReadNormaliser(const json& part) {
  if (part.is_null()) return nullptr;
  auto normaliser = Read(part, 0);
  if (const double growth = WorstGrowth(part); growth > kMaxGrowth) {
    throw LoadError{absl::StrCat("tokenizer.json: normalizer: its Replace steps can make a text ", growth,
                                 " times as long, the limit is ", kMaxGrowth)};
  }
  return normaliser;
}

}  // namespace tributary
