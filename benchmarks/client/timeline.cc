#include "benchmarks/client/timeline.h"

#include <array>
#include <set>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/client/server_metrics.h"

namespace tributary::bench {
namespace {

// What is kept of the metrics: samples of `family` are added up by the value of `label`, under `column`/VALUE.
struct Source {
  const char* family;
  const char* label;  // empty: the family has one sample, named `column`
  const char* column;
};

constexpr std::array kCounters = {
    Source{"tributary_schedule_batch_items_count", "modality", "batches"},
    Source{"tributary_schedule_batch_items_sum", "modality", "items"},
    Source{"tributary_lane_useful_units_total", "modality", "useful"},
    Source{"tributary_lane_computed_units_total", "modality", "computed"},
    Source{"tributary_lane_busy_seconds_total", "modality", "lane_busy_ratio"},
    Source{"tributary_lane_idle_seconds_total", "cause", "lane_idle_ratio"},
};
constexpr std::array kGauges = {
    Source{"tributary_queue_depth_items", "modality", "queue_depth_items"},
    Source{"tributary_prepare_depth_items", "", "queue_depth_items/preparation"},
    Source{"tributary_gpu_utilization_ratio", "gpu", "gpu_utilization_ratio"},
};
// The server's labels are bounded; whatever else answers at that address shall not fill the memory.
constexpr size_t kMaxColumns = 100;

template <size_t N>
std::map<std::string, double> Pick(const std::array<Source, N>& sources, const std::map<std::string, double>& samples) {
  std::map<std::string, double> picked;
  for (const Source& source : sources) {
    const std::string_view family = source.family;
    for (auto at = samples.lower_bound(source.family); at != samples.end(); ++at) {
      const std::string& name = at->first;
      if (!absl::StartsWith(name, {family.data(), family.size()})) break;
      if (name.size() > family.size() && name[family.size()] != '{') continue;  // a longer name
      std::string column = source.column;
      if (*source.label != '\0') absl::StrAppend(&column, "/", LabelValue(name, source.label));
      if (picked.size() < kMaxColumns || picked.contains(column)) picked[column] += at->second;
    }
  }
  return picked;
}

// "items/text", "items/" -> "text".
std::set<std::string> Labels(const std::set<std::string>& names, std::string_view prefix) {
  std::set<std::string> labels;
  for (const std::string& name : names) {
    if (name.rfind(prefix, 0) == 0) labels.insert(name.substr(prefix.size()));
  }
  return labels;
}

double Quotient(double part, double whole) { return whole > 0 ? part / whole : kNoValue; }

}  // namespace

void LoadBin::Merge(const LoadBin& later) {
  answered.Merge(later.answered);
  scheduled += later.scheduled;
  missed += later.missed;
}

Timeline LoadTimeline(BoundedSeries<LoadBin> series, double elapsed_seconds) {
  series.At(elapsed_seconds);  // a run whose end nothing was sent or answered in is as long all the same
  std::vector<LoadBin> bins = series.bins();
  const double width = series.width_seconds();
  const auto start = [&](size_t i) { return static_cast<double>(i) * width; };
  if (bins.size() > 1 && elapsed_seconds - start(bins.size() - 1) < width / 2) {
    bins[bins.size() - 2].Merge(bins.back());
    bins.pop_back();
  }
  Timeline timeline;
  timeline.width_seconds = width;
  for (size_t i = 0; i < bins.size(); ++i) {
    timeline.start_seconds.push_back(start(i));
    const double seconds = (i + 1 == bins.size() ? elapsed_seconds : start(i + 1)) - start(i);
    const KindCounts& answered = bins[i].answered;
    const auto rate = [&](const char* column, uint64_t count) {
      timeline.columns[column].push_back(Quotient(static_cast<double>(count), seconds));
    };
    rate("scheduled_calls", bins[i].scheduled);
    rate("answered_calls", answered.calls);
    rate("missed_calls", bins[i].missed);
    rate("inputs", answered.ok_inputs);
    rate("goodput", answered.good_inputs);
    rate("errors", answered.error_inputs());
    timeline.columns["p50_ms"].push_back(answered.latency.PercentileMillis(0.5));
    timeline.columns["p95_ms"].push_back(answered.latency.PercentileMillis(0.95));
    timeline.columns["p99_ms"].push_back(answered.latency.PercentileMillis(0.99));
    timeline.columns["max_ms"].push_back(answered.latency.MaxMillis());
  }
  return timeline;
}

void ServerSeries::Bin::Merge(const Bin& later) {
  for (const auto& [name, growth] : later.counters) counters[name] += growth;
  for (const auto& [name, gauge] : later.gauges) {
    gauges[name].sum += gauge.sum;
    gauges[name].samples += gauge.samples;
  }
}

void ServerSeries::Add(double seconds, const std::map<std::string, double>& samples) {
  const auto counters = Pick(kCounters, samples);
  if (samples_++ > 0 && seconds > 0) {
    Bin& bin = bins_.At((last_seconds_ + seconds) / 2);
    for (const auto& [name, value] : counters) {
      const auto before = last_.find(name);
      const double base = before == last_.end() || before->second > value ? 0 : before->second;
      bin.counters[name] += value - base;
    }
    for (const auto& [name, value] : Pick(kGauges, samples)) {
      bin.gauges[name].sum += value;
      ++bin.gauges[name].samples;
    }
  }
  last_ = counters;
  last_seconds_ = seconds;
}

Timeline ServerSeries::Take() const {
  std::set<std::string> counters;
  std::set<std::string> gauges;
  for (const Bin& bin : bins_.bins()) {
    for (const auto& [name, growth] : bin.counters) counters.insert(name);
    for (const auto& [name, gauge] : bin.gauges) gauges.insert(name);
  }
  Timeline timeline;
  timeline.width_seconds = bins_.width_seconds();
  timeline.samples = samples_;
  timeline.failed_samples = failed_samples_;
  for (const Bin& bin : bins_.bins()) {
    timeline.start_seconds.push_back(static_cast<double>(timeline.start_seconds.size()) * timeline.width_seconds);
    const auto counted = [&](const std::string& name) {
      const auto found = bin.counters.find(name);
      return found == bin.counters.end() ? 0 : found->second;
    };
    const auto push = [&](const std::string& column, double value) { timeline.columns[column].push_back(value); };
    for (const std::string& modality : Labels(counters, "batches/")) {
      push("batch_items/" + modality, Quotient(counted("items/" + modality), counted("batches/" + modality)));
    }
    for (const std::string& modality : Labels(counters, "computed/")) {
      const double computed = counted("computed/" + modality);
      push("padding_ratio/" + modality, Quotient(computed - counted("useful/" + modality), computed));
    }
    double lane_seconds = 0;
    for (const auto& [name, growth] : bin.counters) {
      if (absl::StartsWith(name, "lane_")) lane_seconds += growth;
    }
    for (const char* prefix : {"lane_busy_ratio/", "lane_idle_ratio/"}) {
      for (const std::string& label : Labels(counters, prefix)) {
        push(prefix + label, Quotient(counted(prefix + label), lane_seconds));
      }
    }
    for (const std::string& name : gauges) {
      const auto found = bin.gauges.find(name);
      push(name, found == bin.gauges.end() ? kNoValue : found->second.sum / static_cast<double>(found->second.samples));
    }
  }
  return timeline;
}

}  // namespace tributary::bench
