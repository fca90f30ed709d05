// Figures of a run over time: bins of bounded number, what is derived from the server's counters.
#include "benchmarks/client/timeline.h"

#include <cmath>
#include <string>

#include "benchmarks/client/server_metrics.h"
#include "tests/support/catch.h"

namespace tributary::bench {
namespace {

using namespace std::chrono_literals;

struct Sum {
  uint64_t value = 0;
  void Merge(const Sum& later) { value += later.value; }
};

uint64_t Total(const BoundedSeries<Sum>& series) {
  uint64_t total = 0;
  for (const Sum& bin : series.bins()) total += bin.value;
  return total;
}

TEST_CASE("A series is in bins of a second, and merges neighbours when it would have too many; nothing is lost") {
  BoundedSeries<Sum> series(4);
  for (int second = 0; second < 4; ++second) series.At(second + 0.5).value += 1;
  CHECK(series.width_seconds() == 1);
  CHECK(series.bins().size() == 4);

  series.At(4).value += 10;
  CHECK(series.width_seconds() == 2);
  REQUIRE(series.bins().size() == 3);
  CHECK(series.bins()[0].value == 2);
  CHECK(series.bins()[1].value == 2);
  CHECK(series.bins()[2].value == 10);

  series.At(-3).value += 100;  // before the first bin: in it
  CHECK(series.bins()[0].value == 102);
}

TEST_CASE("A series of many hours stays as small as one of minutes, whatever the gaps") {
  BoundedSeries<Sum> series(600);
  uint64_t added = 0;
  for (double second = 0; second < 100 * 3600; second += 7) {
    ++series.At(second).value;
    ++added;
    CHECK(series.bins().size() <= 600);
    CHECK(series.bins().capacity() <= 600);
  }
  CHECK(Total(series) == added);
  CHECK(series.width_seconds() == 1024);
  ++series.At(1e9).value;
  CHECK(series.bins().size() <= 600);
  CHECK(Total(series) == added + 1);
}

TEST_CASE("An odd number of bins merges too, and the last one stands alone") {
  BoundedSeries<Sum> series(3);
  for (int second = 0; second < 3; ++second) series.At(second).value += 1;
  series.At(3);
  REQUIRE(series.bins().size() == 2);
  CHECK(series.bins()[0].value == 2);
  CHECK(series.bins()[1].value == 1);
}

TEST_CASE("Calls are counted where they were due, answers where they came, as rates of the bin's own length") {
  BoundedSeries<LoadBin> series;
  series.At(0.2).scheduled = 4;
  series.At(0.2).missed = 1;
  series.At(0.9).answered.Add({.ok_inputs = 2, .tokens = 8, .errors = {}}, 10ms, 50ms);
  series.At(1.1).answered.Add({.ok_inputs = 2, .tokens = 8, .errors = {}}, 60ms, 50ms);
  series.At(1.4).answered.Add({.ok_inputs = 0, .tokens = 0, .errors = {{"UNAVAILABLE", 3}}}, 1ms, 50ms);

  const Timeline timeline = LoadTimeline(series, 1.5);

  CHECK(timeline.width_seconds == 1);
  CHECK(timeline.start_seconds == std::vector<double>{0, 1});
  CHECK(timeline.columns.at("scheduled_calls") == std::vector<double>{4, 0});
  CHECK(timeline.columns.at("missed_calls") == std::vector<double>{1, 0});
  CHECK(timeline.columns.at("answered_calls") == std::vector<double>{1, 4});  // two in half a second
  CHECK(timeline.columns.at("inputs") == std::vector<double>{2, 4});
  CHECK(timeline.columns.at("goodput") == std::vector<double>{2, 0});
  CHECK(timeline.columns.at("errors") == std::vector<double>{0, 6});
  CHECK(timeline.columns.at("p99_ms")[0] == Approx(10).epsilon(0.02));
  CHECK(timeline.columns.at("p99_ms")[1] == Approx(60).epsilon(0.02));
}

TEST_CASE("A sliver of a second at the end is no bin of its own, and a silent end is part of the run") {
  BoundedSeries<LoadBin> series;
  series.At(0.5).answered.Add({.ok_inputs = 1, .tokens = 1, .errors = {}}, 10ms, 50ms);
  series.At(2.02).answered.Add({.ok_inputs = 1, .tokens = 1, .errors = {}}, 10ms, 50ms);
  const Timeline timeline = LoadTimeline(series, 2.02);
  CHECK(timeline.start_seconds == std::vector<double>{0, 1});
  CHECK(timeline.columns.at("answered_calls")[1] == Approx(1 / 1.02));

  const Timeline silent = LoadTimeline(BoundedSeries<LoadBin>(), 5);
  CHECK(silent.start_seconds.size() == 5);
  CHECK(silent.columns.at("answered_calls") == std::vector<double>(5, 0.0));
  CHECK(std::isnan(silent.columns.at("p50_ms")[4]));
}

// A page of a server with two lanes after `n` seconds, each of which brought: 2 batches of 3 items, 100 tokens of which
// 25 were padding, 0.5 s of text on one lane, the rest idle.
std::map<std::string, double> PageAfter(double n) {
  return {{"tributary_schedule_batch_items_count{modality=\"text\"}", 2 * n},
          {"tributary_schedule_batch_items_sum{modality=\"text\"}", 6 * n},
          {"tributary_schedule_batch_items_count{modality=\"image\"}", 0},
          {"tributary_schedule_batch_items_sum{modality=\"image\"}", 0},
          {"tributary_lane_useful_units_total{modality=\"text\"}", 75 * n},
          {"tributary_lane_computed_units_total{modality=\"text\"}", 100 * n},
          {"tributary_lane_busy_seconds_total{lane=\"0\",modality=\"text\"}", 0.5 * n},
          {"tributary_lane_busy_seconds_total{lane=\"1\",modality=\"text\"}", 0},
          {"tributary_lane_idle_seconds_total{lane=\"0\",cause=\"preparing\"}", 0.5 * n},
          {"tributary_lane_idle_seconds_total{lane=\"1\",cause=\"no_work\"}", n},
          {"tributary_prepare_depth_items", 4},
          {"tributary_queue_depth_items{modality=\"text\"}", n},
          {"tributary_queue_depth_items_of_another_kind", 7},
          {"process_threads", 9}};
}

TEST_CASE(
    "The server's counters become batch sizes, padding and shares of the lanes' time; gauges are read as they are") {
  ServerSeries series;
  for (int second = 0; second <= 3; ++second) series.Add(second, PageAfter(second));
  const Timeline timeline = series.Take();

  CHECK(timeline.samples == 4);
  CHECK(timeline.start_seconds == std::vector<double>{0, 1, 2});
  const auto& columns = timeline.columns;
  CHECK(columns.at("batch_items/text") == std::vector<double>{3, 3, 3});
  CHECK(std::isnan(columns.at("batch_items/image")[0]));  // no batch, no size
  CHECK(columns.at("padding_ratio/text") == std::vector<double>{0.25, 0.25, 0.25});
  CHECK(columns.at("lane_busy_ratio/text") == std::vector<double>{0.25, 0.25, 0.25});
  CHECK(columns.at("lane_idle_ratio/preparing") == std::vector<double>{0.25, 0.25, 0.25});
  CHECK(columns.at("lane_idle_ratio/no_work") == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(columns.at("queue_depth_items/text") == std::vector<double>{1, 2, 3});
  CHECK(columns.at("queue_depth_items/preparation") == std::vector<double>{4, 4, 4});
  CHECK(columns.size() == 8);  // those, and padding of nothing else
}

TEST_CASE("Merged bins keep the ratios of what went into them, and hours of samples take no more room") {
  ServerSeries series(4);
  for (int second = 0; second <= 16; ++second) series.Add(second, PageAfter(second));
  const Timeline timeline = series.Take();
  CHECK(timeline.width_seconds == 4);
  CHECK(timeline.columns.at("batch_items/text") == std::vector<double>{3, 3, 3, 3});
  CHECK(timeline.columns.at("lane_idle_ratio/no_work") == std::vector<double>{0.5, 0.5, 0.5, 0.5});
  CHECK(timeline.columns.at("queue_depth_items/text")[0] == Approx(2.5));  // mean of 1 to 4
}

TEST_CASE("What the server did during warm-up does not count, and a server started anew counts from 0") {
  ServerSeries series;
  series.Add(-2, PageAfter(100));
  series.Add(-1, PageAfter(200));
  series.Add(0, PageAfter(300));
  series.Add(1, PageAfter(1));
  const Timeline timeline = series.Take();
  REQUIRE(timeline.start_seconds.size() == 1);
  CHECK(timeline.columns.at("batch_items/text")[0] == 3);
  CHECK(timeline.columns.at("lane_busy_ratio/text")[0] == Approx(0.25));
}

TEST_CASE("Pages that could not be read leave a gap and are counted; without any there is nothing") {
  ServerSeries series;
  series.Add(0, PageAfter(0));
  series.Add(1, PageAfter(1));
  for (int i = 0; i < 4; ++i) series.AddFailure();
  series.Add(6, PageAfter(6));
  const Timeline timeline = series.Take();
  CHECK(timeline.failed_samples == 4);
  REQUIRE(timeline.start_seconds.size() == 4);  // 1 to 6 belongs to its middle
  CHECK(std::isnan(timeline.columns.at("batch_items/text")[1]));
  CHECK(timeline.columns.at("batch_items/text")[3] == 3);

  ServerSeries none;
  none.AddFailure();
  CHECK(none.Take().start_seconds.empty());
  CHECK(none.Take().failed_samples == 1);
}

TEST_CASE("An address that answers with endless labels fills no memory") {
  std::map<std::string, double> page;
  for (int i = 0; i < 5000; ++i) page["tributary_queue_depth_items{modality=\"" + std::to_string(i) + "\"}"] = 1;
  ServerSeries series;
  series.Add(0, page);
  series.Add(1, page);
  CHECK(series.Take().columns.size() <= 100);
}

TEST_CASE("A label's value is read by its name, its escapes undone") {
  const std::string sample = R"(a{x="1,y=\"2\"",y="b\\c\nd",xy="3"})";
  CHECK(LabelValue(sample, "x") == R"(1,y="2")");
  CHECK(LabelValue(sample, "y") == "b\\c\nd");
  CHECK(LabelValue(sample, "xy") == "3");
  CHECK(LabelValue(sample, "z").empty());
  CHECK(LabelValue("a", "x").empty());
  CHECK(LabelValue("a{x=\"", "x").empty());
}

}  // namespace
}  // namespace tributary::bench
