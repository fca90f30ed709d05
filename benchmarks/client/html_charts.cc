#include "benchmarks/client/html_charts.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "benchmarks/client/html_parts.h"
#include "benchmarks/client/latency_histogram.h"

namespace tributary::bench {
namespace {

using nlohmann::json;

// Seconds, minutes or hours, by the length of the run.
struct TimeAxis {
  std::string label = "seconds into the run";
  double per_second = 1;

  explicit TimeAxis(const json& timeline) {
    const json& starts = timeline.at("start_seconds");
    const double last = starts.empty() ? 0 : JsonNumber(starts.back());
    if (last > 3 * 3600) {
      label = "hours into the run";
      per_second = 1.0 / 3600;
    } else if (last > 300) {
      label = "minutes into the run";
      per_second = 1.0 / 60;
    }
  }
};

class TimeCharts {
 public:
  explicit TimeCharts(const json& timeline)
      : columns_(timeline.at("columns")),
        axis_(timeline),
        x_(JsonNumbers(timeline.at("start_seconds"), axis_.per_second)) {}

  HtmlChart Chart(const char* title, const char* y_label, const std::string& note = "") const {
    return {.title = title, .note = note, .x_label = axis_.label, .y_label = y_label, .x = x_, .series = {}};
  }
  void Add(HtmlChart& chart, const std::string& name, const std::string& column, double factor = 1) const {
    if (!columns_.contains(column)) return;
    auto values = JsonNumbers(columns_.at(column), factor);
    values.resize(x_.size(), kNoValue);
    chart.series.push_back({.name = name, .values = std::move(values)});
  }
  // Every column PREFIX/LABEL.
  void AddAll(HtmlChart& chart, const std::string& prefix, const char* before, double factor = 1) const {
    for (const auto& [column, values] : columns_.items()) {
      if (absl::StartsWith(column, prefix))
        Add(chart, before + absl::StrReplaceAll(column.substr(prefix.size()), {{"_", " "}}), column, factor);
    }
  }
  void AddLevel(HtmlChart& chart, const char* name, double level) const {
    chart.series.push_back({.name = name, .values = std::vector<double>(x_.size(), level), .faint = true});
  }

 private:
  const json columns_;
  const TimeAxis axis_;
  const std::vector<double> x_;
};

std::string LoadChartsHtml(const json& timeline, double slo_ms) {
  const TimeCharts charts(timeline);
  HtmlChart latency =
      charts.Chart("Latency", "milliseconds",
                   "From the intended send time to the answer, of the answers that came in each interval.");
  charts.Add(latency, "p50", "p50_ms");
  charts.Add(latency, "p95", "p95_ms");
  charts.Add(latency, "p99", "p99_ms");
  charts.AddLevel(latency, "SLO", slo_ms);
  std::string out = latency.Html();

  HtmlChart inputs = charts.Chart("Throughput, goodput and errors", "inputs a second",
                                  "Goodput: inputs of calls without any error and within the SLO.");
  charts.Add(inputs, "answered without error", "inputs");
  charts.Add(inputs, "goodput", "goodput");
  charts.Add(inputs, "errors", "errors");
  out += inputs.Html();

  HtmlChart calls = charts.Chart("Calls", "calls a second");
  charts.Add(calls, "to be sent", "scheduled_calls");
  charts.Add(calls, "answered", "answered_calls");
  charts.Add(calls, "not sent (too many open)", "missed_calls");
  return out + calls.Html();
}

std::string ServerChartsHtml(const json& timeline) {
  const TimeCharts charts(timeline);
  HtmlChart sizes = charts.Chart("Batch size", "items a batch", "Mean of the batches formed in each interval.");
  sizes.hide_zeros = true;
  charts.AddAll(sizes, "batch_items/", "");
  HtmlChart padding = charts.Chart("Padding", "% of the units computed",
                                   "Tokens, pixels or pairs the arithmetic ran over without being asked for.");
  padding.hide_zeros = true;
  charts.AddAll(padding, "padding_ratio/", "", 100);
  HtmlChart lanes = charts.Chart("What the lanes did", "% of the time of all lanes",
                                 "Busy with batches of a modality, or idle, by what they waited for.");
  lanes.stacked = true;
  lanes.hide_zeros = true;
  lanes.y_max = 100;
  charts.AddAll(lanes, "lane_busy_ratio/", "busy: ", 100);
  const size_t busy = lanes.series.size();
  charts.AddAll(lanes, "lane_idle_ratio/", "idle: ", 100);
  for (size_t i = busy; i < lanes.series.size(); ++i) lanes.series[i].faint = true;
  HtmlChart depth =
      charts.Chart("Queue depth", "items waiting",
                   "Prepared items that wait for a batch, and items that wait to be prepared; read once a second.");
  charts.AddAll(depth, "queue_depth_items/", "");
  HtmlChart gpus = charts.Chart("GPU", "% of the time in which a kernel ran", "As the GPU reports it.");
  charts.AddAll(gpus, "gpu_utilization_ratio/", "GPU ", 100);
  std::string out;
  for (const HtmlChart* chart : {&lanes, &sizes, &padding, &depth, &gpus}) {
    if (!chart->series.empty()) out += chart->Html();
  }
  return out;
}

}  // namespace

double JsonNumber(const json& value) { return value.is_number() ? value.get<double>() : kNoValue; }
double JsonNumber(const json& object, const std::string& key) {
  return object.contains(key) ? JsonNumber(object.at(key)) : kNoValue;
}

std::vector<double> JsonNumbers(const json& list, double factor) {
  std::vector<double> numbers;
  for (const json& value : list) numbers.push_back(factor * JsonNumber(value));
  return numbers;
}

std::string RunChartsHtml(const json& run, double slo_ms, bool metrics_asked) {
  const json load = run.value("timeline", json());
  const json server = run.value("server_timeline", json());
  if (load.is_null()) return "<p class=faint>No course over time: the JSON has none.</p>\n";
  std::string out =
      absl::StrCat("<p class=faint>A point for every ", Readable(JsonNumber(load, "width_seconds")), " s",
                   " of the measured window, at its beginning; the warm-up is not in it.</p>\n<div class=charts>\n",
                   LoadChartsHtml(load, slo_ms));
  if (!server.is_null()) out += ServerChartsHtml(server);
  out += "</div>\n";
  if (server.is_null()) {
    absl::StrAppend(
        &out, "<p class=faint>No charts of the server: ",
        metrics_asked ? "the JSON has no course of its metrics." : "its metrics were not asked for (--metrics-url).",
        "</p>\n");
  } else if (const double failed = JsonNumber(server, "failed_samples"); failed > 0) {
    absl::StrAppend(&out, "<p class=bad>The server's metrics could not be read ", Readable(failed), " times, of ",
                    Readable(failed + JsonNumber(server, "samples")), ".</p>\n");
  }
  return out;
}

}  // namespace tributary::bench
