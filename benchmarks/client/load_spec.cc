#include "benchmarks/client/load_spec.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tributary::bench {
namespace {

constexpr double kMaxWords = 10000;

bool ParseNumber(const std::string& text, double low, double high, double& value) {
  return absl::SimpleAtod(text, &value) && value >= low && value <= high;
}

template <typename Weights>
size_t DrawIndex(const Weights& weights, Random& random) {
  return std::discrete_distribution<size_t>(weights.begin(), weights.end())(random);
}

}  // namespace

absl::StatusOr<Mix> Mix::Parse(const std::string& text) {
  Mix mix;
  double sum = 0;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    const auto name = std::find(kKindNames.begin(), kKindNames.end(), sides[0]);
    double share = 0;
    if (name == kKindNames.end() || sides.size() != 2 || !ParseNumber(sides[1], 0, 1e9, share)) {
      return absl::InvalidArgumentError(absl::StrCat("mix: '", part, "' is not text=, image= or pair= and a share"));
    }
    double& slot = mix.shares_[static_cast<size_t>(name - kKindNames.begin())];
    if (slot > 0) return absl::InvalidArgumentError(absl::StrCat("mix: '", sides[0], "' is there twice"));
    slot = share;
    sum += share;
  }
  if (sum <= 0) return absl::InvalidArgumentError("mix: every share is 0");
  return mix;
}

Kind Mix::Draw(Random& random) const { return static_cast<Kind>(DrawIndex(shares_, random)); }

absl::StatusOr<WordCounts> WordCounts::Parse(const std::string& text) {
  const auto error = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "words: '", text, "' is not fixed:N, lognormal:MEDIAN,SIGMA or mixed:N@SHARE,... with 1 to 10000 words"));
  };
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return error();
  const std::string form = text.substr(0, colon);
  const std::vector<std::string> parts = absl::StrSplit(text.substr(colon + 1), ',');
  WordCounts counts;
  if (form == "lognormal") {
    if (parts.size() != 2 || !ParseNumber(parts[0], 1, kMaxWords, counts.median_) ||
        !ParseNumber(parts[1], 0, 5, counts.sigma_)) {
      return error();
    }
    return counts;
  }
  if (form != "fixed" && form != "mixed") return error();
  if (form == "fixed" && parts.size() != 1) return error();
  for (const std::string& part : parts) {
    const std::vector<std::string> sides = absl::StrSplit(part, '@');
    double words = 0;
    double share = 1;
    if (!ParseNumber(sides[0], 1, kMaxWords, words) || sides.size() != (form == "mixed" ? 2u : 1u) ||
        (form == "mixed" && !ParseNumber(sides[1], 1e-9, 1e9, share))) {
      return error();
    }
    counts.choices_.emplace_back(static_cast<size_t>(words), share);
  }
  return counts;
}

size_t WordCounts::Draw(Random& random) const {
  if (median_ > 0) {
    const double words = std::lognormal_distribution<double>(std::log(median_), sigma_)(random);
    return static_cast<size_t>(std::clamp(std::round(words), 1.0, kMaxWords));
  }
  std::vector<double> shares;
  shares.reserve(choices_.size());
  for (const auto& [words, share] : choices_) shares.push_back(share);
  return choices_[DrawIndex(shares, random)].first;
}

Nanos Arrivals::Next() {
  next_seconds_ += pattern_ == Pattern::kConstant ? 1 / rate_ : std::exponential_distribution<double>(rate_)(random_);
  return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(next_seconds_));
}

absl::StatusOr<Condition> Condition::Parse(const std::string& text, const std::map<std::string, double>& known) {
  const size_t sign = text.find_first_of("<>");
  Condition condition;
  if (sign == std::string::npos || !absl::SimpleAtod(text.substr(sign + 1), &condition.limit)) {
    return absl::InvalidArgumentError(absl::StrCat("fail-if: '", text, "' is not NAME>NUMBER or NAME<NUMBER"));
  }
  condition.name = text.substr(0, sign);
  condition.above = text[sign] == '>';
  if (!known.contains(condition.name)) {
    std::string names;
    for (const auto& [name, value] : known) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    return absl::InvalidArgumentError(absl::StrCat("fail-if: no '", condition.name, "'; there are ", names));
  }
  return condition;
}

bool Condition::Holds(const std::map<std::string, double>& values) const {
  const double value = values.at(name);
  return !(above ? value <= limit : value >= limit);
}

absl::StatusOr<std::pair<int, int>> ParseSize(const std::string& text) {
  const std::vector<std::string> sides = absl::StrSplit(text, 'x');
  std::pair<int, int> size;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &size.first) || !absl::SimpleAtoi(sides[1], &size.second) ||
      size.first < 1 || size.second < 1 || size.first > 16384 || size.second > 16384) {
    return absl::InvalidArgumentError(absl::StrCat("image size '", text, "' is not WIDTHxHEIGHT, 1 to 16384 each"));
  }
  return size;
}

}  // namespace tributary::bench
