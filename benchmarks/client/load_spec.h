// What load to make, as the flags write it: mix of kinds, word counts, arrivals, conditions for failure. Pure.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary::bench {

using Random = std::mt19937_64;
using Nanos = std::chrono::nanoseconds;

enum class Kind { kText = 0, kImage = 1, kPair = 2 };
inline constexpr size_t kKindCount = 3;
inline constexpr std::array<const char*, kKindCount> kKindNames = {"text", "image", "pair"};

// "text=0.6,image=0.3,pair=0.1": shares of calls; any positive sum.
class Mix {
 public:
  static absl::StatusOr<Mix> Parse(const std::string& text);
  Kind Draw(Random& random) const;
  bool Has(Kind kind) const { return shares_[static_cast<size_t>(kind)] > 0; }

 private:
  std::array<double, kKindCount> shares_{};
};

// Words of a text: "fixed:16", "lognormal:40,0.9" (median, sigma of the logarithm), or "mixed:10@0.6,60@0.3,300@0.1"
// (words@share). 1 to 10,000 words.
class WordCounts {
 public:
  static absl::StatusOr<WordCounts> Parse(const std::string& text);
  size_t Draw(Random& random) const;

 private:
  double median_ = 0;  // log-normal when > 0
  double sigma_ = 0;
  std::vector<std::pair<size_t, double>> choices_;  // words, share
};

// When calls are to be sent: offsets from the start of the run, ascending, at `rate` per second on average.
class Arrivals {
 public:
  enum class Pattern { kPoisson, kConstant };
  Arrivals(Pattern pattern, double rate, uint64_t seed) : pattern_(pattern), rate_(rate), random_(seed) {}
  Nanos Next();

 private:
  Pattern pattern_;
  double rate_;
  Random random_;
  double next_seconds_ = 0;
};

// "p99_ms>50", "goodput_ratio<0.99": when the program is to fail. Names are the numbers of RunSummary.
struct Condition {
  std::string name;
  bool above = true;  // fails when the value is above the limit; else when below
  double limit = 0;

  // INVALID_ARGUMENT for anything but name, '<' or '>', number; the name must be one of `known`.
  static absl::StatusOr<Condition> Parse(const std::string& text, const std::map<std::string, double>& known);
  // A figure nothing was measured for (NaN) fails every condition: it cannot be told to be good.
  bool Holds(const std::map<std::string, double>& values) const;
};

// "640x480" -> {640, 480}.
absl::StatusOr<std::pair<int, int>> ParseSize(const std::string& text);

}  // namespace tributary::bench
