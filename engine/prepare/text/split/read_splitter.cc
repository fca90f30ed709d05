#include "engine/prepare/text/split/read_splitter.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/pattern/read_pattern.h"
#include "engine/prepare/text/pattern/simple_patterns.h"
#include "engine/prepare/text/pattern/word_patterns.h"

namespace tributary {
namespace {

using nlohmann::json;
using Behaviour = PatternSplitter::Behaviour;

// Sequences of sequences are read this deep; nobody writes more than one.
constexpr int kDeepest = 4;

Behaviour ReadBehaviour(const std::string& name, const std::string& type) {
  if (name == "Removed") return Behaviour::kRemoved;
  if (name == "Isolated") return Behaviour::kIsolated;
  if (name == "MergedWithPrevious") return Behaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behaviour::kMergedWithNext;
  if (name == "Contiguous") return Behaviour::kContiguous;
  throw LoadError{absl::StrCat("tokenizer.json: pre_tokenizer '", type, "': behavior '", name, "' is not supported")};
}

// Collects the steps, sequences opened up.
class Reader {
 public:
  void Read(const json& part, int depth = 0) {
    const auto type = part.value("type", "without a type");
    if (type == "Sequence") {
      if (depth == kDeepest) throw LoadError{"tokenizer.json: pre_tokenizer 'Sequence' is nested too deeply"};
      for (const json& step : part.at("pretokenizers")) Read(step, depth + 1);
      return;
    }
    if (result_.byte_level) {
      throw LoadError{absl::StrCat("tokenizer.json: pre_tokenizer '", type, "' behind 'ByteLevel' is not supported")};
    }
    if (type == "ByteLevel") {
      if (part.value("add_prefix_space", true)) steps_.push_back(std::make_unique<PrefixSpace>());
      if (part.value("use_regex", true)) Cut(std::make_unique<Gpt2Pattern>(), Behaviour::kIsolated);
      result_.byte_level = true;
    } else if (type == "Split") {
      Cut(ReadPattern(part.at("pattern"), "tokenizer.json: pre_tokenizer 'Split'"),
          ReadBehaviour(part.at("behavior").get<std::string>(), type), part.value("invert", false));
    } else if (type == "WhitespaceSplit") {
      CutRuns(CharClasses::kSpace, Behaviour::kRemoved, true);
    } else if (type == "Whitespace") {
      Cut(std::make_unique<WordOrMarksPattern>(), Behaviour::kRemoved, /*invert=*/true);
    } else if (type == "Punctuation") {
      CutRuns(CharClasses::kPunctuation, ReadBehaviour(part.value("behavior", "Isolated"), type));
    } else if (type == "Digits") {
      const bool individual = part.value("individual_digits", false);
      CutRuns(CharClasses::kNumeric, individual ? Behaviour::kIsolated : Behaviour::kContiguous);
    } else if (type == "BertPreTokenizer") {
      CutRuns(CharClasses::kSpace, Behaviour::kRemoved, true);
      CutRuns(CharClasses::kPunctuation, Behaviour::kIsolated);
    } else if (type == "Metaspace") {
      ReadMetaspace(part);
    } else {
      throw LoadError{absl::StrCat("tokenizer.json: pre_tokenizer '", type, "' is not supported")};
    }
  }

  ReadSplit Take() {
    if (steps_.size() == 1) result_.splitter = std::move(steps_[0]);
    if (steps_.size() > 1) result_.splitter = std::make_unique<SplitterSequence>(std::move(steps_));
    return std::move(result_);
  }

 private:
  void Cut(std::unique_ptr<Pattern> pattern, Behaviour behaviour, bool invert = false) {
    steps_.push_back(std::make_unique<PatternSplitter>(std::move(pattern), behaviour, invert));
  }

  // `longest`: runs as a whole, which makes no difference to what is removed.
  void CutRuns(CharClasses::Class name, Behaviour behaviour, bool longest = false) {
    CharRunPattern::Options options;
    options.classes = name;
    options.longest = longest;
    Cut(std::make_unique<CharRunPattern>(options), behaviour);
  }

  void ReadMetaspace(const json& part) {
    // Old files say add_prefix_space.
    const auto scheme = part.value("prepend_scheme", part.value("add_prefix_space", true) ? "always" : "never");
    auto prepend = Metaspace::Prepend::kNever;
    if (scheme == "always") {
      prepend = Metaspace::Prepend::kAlways;
    } else if (scheme == "first") {
      prepend = Metaspace::Prepend::kFirst;
      if (rewritten_)
        throw LoadError{"tokenizer.json: pre_tokenizer 'Metaspace' with prepend_scheme first is not supported here"};
      result_.asks_for_start = true;
    } else if (scheme != "never") {
      throw LoadError{
          absl::StrCat("tokenizer.json: pre_tokenizer 'Metaspace': prepend_scheme '", scheme, "' is not supported")};
    }
    const auto replacement = part.value("replacement", "\u2581");
    if (replacement.empty()) throw LoadError{"tokenizer.json: pre_tokenizer 'Metaspace' with an empty replacement"};
    steps_.push_back(std::make_unique<Metaspace>(replacement, prepend, part.value("split", true)));
    rewritten_ = true;
  }

  std::vector<std::unique_ptr<Splitter>> steps_;
  bool rewritten_ = false;  // positions are no longer those of the input
  ReadSplit result_;
};

}  // namespace

ReadSplit ReadSplitter(const nlohmann::json& part) {
  Reader reader;
  if (!part.is_null()) reader.Read(part);
  return reader.Take();
}

}  // namespace tributary
