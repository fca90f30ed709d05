// The pure parts of the bench client: what flags mean, when calls are sent, percentiles, the search.
#include "benchmarks/client/load_spec.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "benchmarks/client/latency_histogram.h"
#include "benchmarks/client/rate_search.h"
#include "benchmarks/client/run_summary.h"
#include "benchmarks/client/server_metrics.h"
#include "tests/support/catch.h"

namespace tributary::bench {
namespace {

using namespace std::chrono_literals;

TEST_CASE("A mix is drawn by its shares") {
  const auto mix = Mix::Parse("text=6,pair=2");
  REQUIRE(mix.ok());
  CHECK(mix->Has(Kind::kText));
  CHECK_FALSE(mix->Has(Kind::kImage));
  Random random(1);
  int texts = 0;
  for (int i = 0; i < 10000; ++i) {
    const Kind kind = mix->Draw(random);
    CHECK((kind == Kind::kText || kind == Kind::kPair));
    texts += kind == Kind::kText ? 1 : 0;
  }
  CHECK(texts == Approx(7500).margin(200));  // over 4 standard deviations of 43
}

TEST_CASE("A mix that names no kind, a kind twice, or no positive share is refused") {
  for (const char* bad : {"", "text", "audio=1", "text=-1", "text=0", "text=1,text=1", "text=x", "text=1=2"}) {
    INFO(bad);
    CHECK_FALSE(Mix::Parse(bad).ok());
  }
}

TEST_CASE("Word counts are fixed, mixed by share, or log-normal around their median") {
  Random random(1);
  CHECK(WordCounts::Parse("fixed:16")->Draw(random) == 16);

  const auto mixed = WordCounts::Parse("mixed:10@3,500@1");
  int longs = 0;
  for (int i = 0; i < 8000; ++i) longs += mixed->Draw(random) == 500 ? 1 : 0;
  CHECK(longs == Approx(2000).margin(200));

  const auto normal = WordCounts::Parse("lognormal:40,0.9");
  std::vector<size_t> counts;
  for (int i = 0; i < 10001; ++i) counts.push_back(normal->Draw(random));
  std::sort(counts.begin(), counts.end());
  CHECK(static_cast<double>(counts[5000]) == Approx(40).margin(3));
  // One sigma above the median lies at the 84.1 percentile.
  CHECK(static_cast<double>(counts[8413]) == Approx(40 * std::exp(0.9)).epsilon(0.08));
  CHECK(counts.front() >= 1);
}

TEST_CASE("Word counts that make no sense are refused") {
  for (const char* bad : {"", "16", "fixed:0", "fixed:1,2", "fixed:20000", "mixed:10", "mixed:10@0", "lognormal:40",
                          "lognormal:0.5,1", "zipf:2"}) {
    INFO(bad);
    CHECK_FALSE(WordCounts::Parse(bad).ok());
  }
}

TEST_CASE("Constant arrivals are equally far apart; Poisson ones are random at the same rate, and repeatable") {
  Arrivals constant(Arrivals::Pattern::kConstant, 200, 1);
  CHECK(constant.Next() == 5ms);
  CHECK(constant.Next() == 10ms);

  Arrivals poisson(Arrivals::Pattern::kPoisson, 200, 1);
  Arrivals again(Arrivals::Pattern::kPoisson, 200, 1);
  Nanos last{0};
  double sum_of_squares = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const Nanos next = poisson.Next();
    CHECK(next == again.Next());
    const double gap_millis = std::chrono::duration<double, std::milli>(next - last).count();
    sum_of_squares += gap_millis * gap_millis;
    last = next;
  }
  CHECK(std::chrono::duration<double>(last).count() == Approx(kCount / 200.0).epsilon(0.03));
  // Exponential gaps: the mean square is twice the square of the mean (5 ms).
  CHECK(sum_of_squares / kCount == Approx(50).epsilon(0.06));
}

TEST_CASE("A percentile is never below the true value, and at most a sixty-fourth above") {
  LatencyHistogram histogram;
  std::vector<int64_t> micros;
  Random random(3);
  for (int i = 0; i < 20000; ++i)
    micros.push_back(static_cast<int64_t>(std::exp(static_cast<double>(random() % 1600) / 100)));
  for (const int64_t value : micros) histogram.Add(std::chrono::microseconds(value));
  std::sort(micros.begin(), micros.end());
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(fraction * 20000)) - 1;
    const double exact = static_cast<double>(micros[rank]) / 1000;
    INFO("fraction " << fraction);
    CHECK(histogram.PercentileMillis(fraction) >= exact);
    CHECK(histogram.PercentileMillis(fraction) <= exact * (1 + 1.0 / 64));
  }
  CHECK(histogram.MaxMillis() == static_cast<double>(micros.back()) / 1000);
}

TEST_CASE("A histogram holds no value, zero, days, and another histogram") {
  LatencyHistogram histogram;
  CHECK(std::isnan(histogram.PercentileMillis(0.99)));
  CHECK(std::isnan(histogram.MeanMillis()));
  CHECK(std::isnan(histogram.MaxMillis()));
  histogram.Add(0ns);
  CHECK(histogram.PercentileMillis(0.99) == 0);
  LatencyHistogram other;
  other.Add(100h);
  histogram.Merge(other);
  CHECK(histogram.count() == 2);
  CHECK(histogram.MaxMillis() == 360000000);
  CHECK(histogram.PercentileMillis(0.5) == 0);
}

TEST_CASE("A condition for failure compares a known number, and anything else is refused") {
  const std::map<std::string, double> values = {{"p99_ms", 60}, {"goodput_ratio", 0.98}};
  CHECK(Condition::Parse("p99_ms>50", values)->Holds(values));
  CHECK_FALSE(Condition::Parse("p99_ms>60", values)->Holds(values));
  CHECK(Condition::Parse("goodput_ratio<0.99", values)->Holds(values));
  CHECK_FALSE(Condition::Parse("goodput_ratio<0.98", values)->Holds(values));
  for (const char* bad : {"p99_ms", "p98_ms>5", "p99_ms>", "p99_ms>x", ">5", "p99_ms=5"}) {
    INFO(bad);
    CHECK_FALSE(Condition::Parse(bad, values).ok());
  }
}

TEST_CASE("A figure nothing was measured for fails every condition") {
  RunSummary summary;
  summary.scheduled_calls = 2;
  summary.elapsed_seconds = 1;
  summary.kinds[0].Add({.ok_inputs = 0, .tokens = 0, .errors = {{"UNAVAILABLE", 1}}}, 1ms, 50ms);
  summary.kinds[0].Add({.ok_inputs = 0, .tokens = 0, .errors = {{"INTERNAL", 1}}}, 1ms, 50ms);
  const auto holds = [](const RunSummary& of, const char* condition) {
    return Condition::Parse(condition, of.Values())->Holds(of.Values());
  };
  for (const char* condition : {"p50_ms>50", "p99_ms>50", "p99_ms<50", "mean_ms>50", "max_ms>50"}) {
    INFO(condition);
    CHECK(holds(summary, condition));
  }
  CHECK_FALSE(holds(summary, "error_ratio<1"));
  // No call at all: no ratio either.
  CHECK(holds({}, "error_ratio>0"));
  CHECK(holds({}, "goodput_ratio<0.99"));
}

TEST_CASE("A call that ran out of time counts in latency with the time it waited") {
  RunSummary summary;
  auto& texts = summary.kinds[0];
  texts.Add({.ok_inputs = 1, .tokens = 4, .errors = {}}, 10ms, 50ms);
  texts.Add({.ok_inputs = 0, .tokens = 0, .errors = {{"DEADLINE_EXCEEDED", 1}}}, 200ms, 500ms);
  texts.Add({.ok_inputs = 0, .tokens = 0, .errors = {{"CANCELLED", 1}}}, 300ms, 500ms);
  texts.Add({.ok_inputs = 0, .tokens = 0, .errors = {{"RESOURCE_EXHAUSTED", 1}}}, 1ms, 500ms);
  CHECK(texts.latency.count() == 3);
  CHECK(summary.Values().at("p50_ms") == Approx(200).epsilon(0.02));
  CHECK(summary.Values().at("max_ms") == 300);
  CHECK(texts.good_calls == 1);
}

TEST_CASE(
    "An open loop was held unless over 1 % of its calls were not sent or the p99 of the send lag is over 100 ms") {
  RunSummary summary;
  summary.offered_rate = 100;
  summary.scheduled_calls = 1000;
  summary.max_in_flight = 8;
  for (int i = 0; i < 1000; ++i) summary.send_lag.Add(i < 990 ? 99ms : 1900ms);
  CHECK(summary.WhyNotHeld().empty());

  RunSummary missed = summary;
  missed.missed_calls = 10;
  CHECK(missed.WhyNotHeld().empty());
  missed.missed_calls = 11;
  CHECK(missed.WhyNotHeld() == "1.1 % of the calls were not sent: max_in_flight 8 was reached");

  RunSummary late = summary;
  for (int i = 0; i < 10; ++i) late.send_lag.Add(101ms);
  CHECK(late.WhyNotHeld() == "calls were sent late: p99 of the lag is 101 ms, the bound 100 ms");
  late.offered_rate = 0;  // a closed loop has no rate to hold
  CHECK(late.WhyNotHeld().empty());
  late.not_held = "ended early";
  CHECK(late.WhyNotHeld() == "ended early");
}

TEST_CASE("The search closes in on the highest rate that passes, from below and from above") {
  for (const double limit : {7.3, 100.0, 3333.0}) {
    for (const double start : {1.0, 100.0, 20000.0}) {
      INFO("limit " << limit << " start " << start);
      const double found = SearchRate({.start = start}, [&](double rate) { return rate <= limit; });
      CHECK(found <= limit);
      CHECK(found >= limit / 1.05);
    }
  }
  CHECK(SearchRate({.start = 10}, [](double) { return false; }) == 0);
}

TEST_CASE("Goodput counts calls without error within the SLO, of all that were scheduled") {
  RunSummary summary;
  summary.scheduled_calls = 10;
  summary.missed_calls = 6;
  summary.elapsed_seconds = 2;
  auto& texts = summary.kinds[0];
  texts.Add({.ok_inputs = 4, .tokens = 40, .errors = {}}, 10ms, 50ms);
  texts.Add({.ok_inputs = 4, .tokens = 40, .errors = {}}, 51ms, 50ms);
  texts.Add({.ok_inputs = 3, .tokens = 30, .errors = {{"INVALID_ARGUMENT", 1}}}, 10ms, 50ms);
  texts.Add({.ok_inputs = 0, .tokens = 0, .errors = {{"UNAVAILABLE", 4}}}, 1ms, 50ms);
  const auto values = summary.Values();
  CHECK(values.at("goodput") == 2);
  CHECK(values.at("goodput_ratio") == Approx(0.1));
  CHECK(values.at("inputs_per_second") == Approx(5.5));
  CHECK(values.at("error_ratio") == Approx(5.0 / 16));
  CHECK(values.at("missed_ratio") == Approx(0.6));
  CHECK(values.at("p50_ms") == Approx(10).epsilon(0.02));
}

TEST_CASE("Samples of a metrics page are read with their labels; buckets and comments are left out") {
  const auto samples = ParseMetrics(
      "# HELP a_total x\n# TYPE a_total counter\na_total 3\nb{c=\"d e\",f=\"g\"} 1.5e3\nh_bucket{le=\"1\"} 7\nh_sum "
      "2\r\n"
      "broken\n");
  CHECK(samples == std::map<std::string, double>{{"a_total", 3}, {"b{c=\"d e\",f=\"g\"}", 1500}, {"h_sum", 2}});
}

TEST_CASE("An image size is width x height, within bounds") {
  CHECK(*ParseSize("640x480") == std::pair(640, 480));
  for (const char* bad : {"640", "0x5", "5x-1", "99999x5", "5x5x5", "axb"}) CHECK_FALSE(ParseSize(bad).ok());
}

}  // namespace
}  // namespace tributary::bench
