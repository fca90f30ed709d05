// Goodput when more comes in than the lanes can serve, in a simulation: Poisson arrivals of short, medium and long
// texts, two lanes whose batches take 15 % more or less than they should, fake clock, fixed seed.
#include <algorithm>
#include <numeric>
#include <random>

#include "engine/schedule/length_buckets.h"
#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

struct Load {
  double rate = 0;    // texts a second
  Duration slo{0};    // deadline after arrival
  Duration fixed{0};  // cost of a batch
  Duration per_token{0};
  uint64_t max_units = 0;
};

struct Served {
  std::array<double, 3> offered{};  // texts a second: short, medium, long
  std::array<double, 3> in_time{};
  double total() const { return std::accumulate(in_time.begin(), in_time.end(), 0.0); }
  double fraction_in_time() const { return total() / std::accumulate(offered.begin(), offered.end(), 0.0); }
};

Served Simulate(const Load& load) {
  constexpr double kSeconds = 6;
  constexpr double kWarmUpSeconds = 2;
  SchedulerHouse house({}, 2, {{Modality::kText, load.max_units, 256}});
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> noise(0.85, 1.15);
  LaneSimulator lanes(&house, [&](const Batch& batch) {
    const auto tokens = static_cast<int64_t>(RoundedTokenTotal(batch.useful_units));
    return FromSeconds(noise(random) * ToSeconds(load.fixed + load.per_token * tokens));
  });
  const auto uniform = [&](uint64_t low, uint64_t high) { return low + random() % (high - low + 1); };
  std::exponential_distribution<double> gap(load.rate);
  struct Text {
    size_t kind;
    TimePoint due;
    std::shared_ptr<Answer> answer;
  };
  std::vector<Text> texts;
  double next = gap(random);
  for (double t = 0; t < kSeconds + 1; t += 0.00025) {
    for (; next < std::min(t, kSeconds); next += gap(random)) {
      const uint64_t draw = uniform(1, 10);
      const size_t kind = draw <= 6 ? 0 : draw <= 9 ? 1 : 2;
      const uint64_t tokens = kind == 0 ? uniform(8, 24) : kind == 1 ? uniform(60, 120) : uniform(250, 400);
      auto answer = house.Push({.units = tokens, .deadline_after = load.slo});
      if (next > kWarmUpSeconds) texts.push_back({kind, house.clock.Now() + load.slo, std::move(answer)});
    }
    lanes.Step(microseconds(250));
  }
  Served served;
  for (const Text& text : texts) {
    if (text.answer->times != 1) FAIL("a text was not answered exactly once");
    served.offered[text.kind] += 1 / (kSeconds - kWarmUpSeconds);
    if (text.answer->ok() && text.answer->done_at <= text.due) {
      served.in_time[text.kind] += 1 / (kSeconds - kWarmUpSeconds);
    }
  }
  return served;
}

// The peak: the most that is served with 99 % in time.
Served Peak(Load load, double low, double high) {
  Served peak;
  for (int i = 0; i < 5; ++i) {
    load.rate = (low + high) / 2;
    const Served served = Simulate(load);
    if (served.fraction_in_time() >= 0.99) {
      peak = served;
      low = load.rate;
    } else {
      high = load.rate;
    }
  }
  return peak;
}

TEST_CASE("under 1.5 and 2 times the load goodput is at least 0.9 of the peak, and 0.8 in each length class") {
  // Like one CPU core a lane, and like a GPU with large batches.
  const std::vector<Load> table = {{400, milliseconds(100), milliseconds(1), microseconds(66), 512},
                                   {20000, milliseconds(50), milliseconds(2), microseconds(1), 8192}};
  for (Load load : table) {
    const Served peak = Peak(load, load.rate / 2, load.rate * 1.5);
    const double peak_rate = std::accumulate(peak.offered.begin(), peak.offered.end(), 0.0);
    REQUIRE(peak.total() > 0);
    for (const double overload : {1.5, 2.0}) {
      load.rate = overload * peak_rate;
      const Served served = Simulate(load);
      CAPTURE(peak.in_time, served.in_time, served.offered, overload);
      CHECK(served.total() >= 0.9 * peak.total());
      for (size_t kind = 0; kind < 3; ++kind) CHECK(served.in_time[kind] >= 0.8 * peak.in_time[kind]);
    }
  }
}

}  // namespace
}  // namespace tributary
