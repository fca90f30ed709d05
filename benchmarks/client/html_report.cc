#include "benchmarks/client/html_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "benchmarks/client/html_charts.h"
#include "benchmarks/client/html_parts.h"
#include "benchmarks/client/latency_histogram.h"
#include "benchmarks/client/report_assets.h"

namespace tributary::bench {
namespace {

using nlohmann::json;

std::string With(double value, const char* unit) {
  return std::isnan(value) ? Readable(value) : absl::StrCat(Readable(value), " ", unit);
}

// Any value of JSON as people write it.
std::string Text(const json& value) {
  if (value.is_string()) return value.get<std::string>().empty() ? "(not given)" : value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number()) return Readable(value.get<double>());
  if (value.is_null()) return "–";
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items()) {
    parts.push_back(value.is_object() ? absl::StrCat(key, " ", Text(part)) : Text(part));
  }
  return parts.empty() ? "(not given)" : absl::StrJoin(parts, ", ");
}

// ---- What was run, where.

std::string Words(const std::string& key) { return absl::StrReplaceAll(key, {{"_", " "}}); }

std::string ConfigHtml(const json& config) {
  static const std::map<std::string, const char*> kUnits = {
      {"batch", "inputs a call"}, {"concurrency", "calls"}, {"deadline", "s"}, {"duration", "s"},
      {"max_in_flight", "calls"}, {"rate", "calls/s"},      {"slo_ms", "ms"},  {"warmup", "s"}};
  const double rate = JsonNumber(config, "rate");
  std::vector<std::pair<std::string, std::string>> facts = {
      {"load",
       rate > 0 ? "open loop: calls at a rate, whatever comes back" : "closed loop: so many calls always open"}};
  for (const auto& [key, value] : config.items()) {
    // What the other loop is told by means nothing here.
    if (rate > 0 ? key == "concurrency" : key == "rate" || key == "constant" || key == "max_in_flight") continue;
    const auto unit = kUnits.find(key);
    facts.emplace_back(key == "slo_ms" ? "SLO" : Words(key), unit == kUnits.end() || !value.is_number()
                                                                 ? key == "seed" ? value.dump() : Text(value)
                                                                 : With(JsonNumber(value), unit->second));
  }
  return FactsHtml("Configuration (the client's flags)", facts);
}

std::string MachineHtml(const json& document) {
  const json machine = document.value("machine", json::object());
  std::vector<std::pair<std::string, std::string>> facts = {
      {"started", Text(document.value("started", json()))},
      {"commit of the server", Text(document.value("commit", json()))},
      {"processor", Text(machine.value("cpu", json()))},
      {"cores", Readable(JsonNumber(machine, "cores"))},
      {"memory", With(JsonNumber(machine, "memory_bytes") / (1 << 30), "GiB")}};
  const json versions = document.value("versions", json::object());
  for (const auto& [name, version] : versions.items())
    facts.emplace_back(absl::StrCat(Words(name), " version"), Text(version));
  return FactsHtml("Machine (the client's) and versions", facts);
}

// "parameterCount" -> "parameter count"
std::string Spaced(const std::string& key) {
  std::string name;
  for (const char c : key) {
    if (absl::ascii_isupper(c)) name += ' ';
    name += absl::ascii_tolower(c);
  }
  return name;
}

std::string ModelsHtml(const json& models) {
  std::string out;
  for (const json& model : models) {
    std::vector<std::pair<std::string, std::string>> facts;
    for (const auto& [key, value] : model.items()) {
      // MessageToJsonString writes 64-bit numbers as strings.
      double number = kNoValue;
      const bool digits = value.is_string() && key != "revision" && key != "name" &&
                          absl::SimpleAtod(value.get<std::string>(), &number);
      facts.emplace_back(Spaced(key), digits ? Readable(number) : Text(value));
    }
    out += FactsHtml("Model", facts);
  }
  return out;
}

// ---- What came of it.

std::string Verdict(bool held, const std::string& why_not) {
  return held ? "<p class=\"verdict good\">The load was held.</p>\n"
              : absl::StrCat("<p class=\"verdict bad\">The load was not held: ", EscapeHtml(why_not), "</p>\n");
}

// Mean over the run of the share of their time in which the lanes were busy; bins are equally wide.
double MeanBusy(const json& server) {
  double sum = 0;
  size_t bins = 0;
  if (server.is_null()) return kNoValue;
  std::vector<double> busy(server.at("start_seconds").size(), kNoValue);
  for (const auto& [name, values] : server.at("columns").items()) {
    if (!absl::StartsWith(name, "lane_busy_ratio/")) continue;
    const auto shares = JsonNumbers(values, 1);
    for (size_t i = 0; i < std::min(busy.size(), shares.size()); ++i) {
      if (!std::isnan(shares[i])) busy[i] = (std::isnan(busy[i]) ? 0 : busy[i]) + shares[i];
    }
  }
  for (const double share : busy) {
    if (std::isnan(share)) continue;
    sum += share;
    ++bins;
  }
  return bins == 0 ? kNoValue : sum / static_cast<double>(bins);
}

struct Tile {
  const char* name;
  double value;
  const char* unit;
};

std::string TilesHtml(const json& run) {
  const json values = run.value("values", json::object());
  const double busy = MeanBusy(run.value("server_timeline", json()));
  std::string out = "<dl class=tiles>\n";
  for (const Tile& tile : std::vector<Tile>{{"latency p50", JsonNumber(values, "p50_ms"), "ms"},
                                            {"latency p95", JsonNumber(values, "p95_ms"), "ms"},
                                            {"latency p99", JsonNumber(values, "p99_ms"), "ms"},
                                            {"answered", JsonNumber(values, "inputs_per_second"), "inputs/s"},
                                            {"goodput, within the SLO", JsonNumber(values, "goodput"), "inputs/s"},
                                            {"calls within the SLO", 100 * JsonNumber(values, "goodput_ratio"), "%"},
                                            {"inputs with errors", 100 * JsonNumber(values, "error_ratio"), "%"},
                                            {"tokens", JsonNumber(values, "tokens_per_second"), "tokens/s"},
                                            {"lanes busy, mean", 100 * busy, "%"}}) {
    absl::StrAppend(&out, "<div><dt>", tile.name, "</dt><dd>", Readable(tile.value), "<small> ",
                    std::isnan(tile.value) ? "" : tile.unit, "</small></dd></div>\n");
  }
  return out + "</dl>\n";
}

std::string KindsHtml(const json& run) {
  HtmlTable table{.caption = "By kind of input; latencies in milliseconds",
                  .head = {"kind", "calls", "inputs", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"},
                  .rows = {}};
  const json kinds = run.value("kinds", json::object());
  for (const auto& [name, kind] : kinds.items()) {
    std::vector<std::string> row = {name};
    for (const char* key :
         {"calls", "ok_inputs", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"}) {
      row.push_back(Readable(JsonNumber(kind, key)));
    }
    table.rows.push_back(std::move(row));
  }
  std::string out = table.rows.empty() ? "" : table.Html();
  HtmlTable errors{.caption = "Inputs with errors", .head = {"code", "inputs"}, .rows = {}};
  const json by_code = run.value("errors", json::object());
  for (const auto& [code, inputs] : by_code.items()) {
    errors.rows.push_back({code, Readable(JsonNumber(inputs))});
  }
  return out + (errors.rows.empty() ? "" : errors.Html());
}

// ---- Several runs beside one another.

struct Run {
  std::string name;
  bool good = true;  // held; of a search: within the SLO, too
  std::string why_not;
  json json_of_run;  // values, timelines
};

std::string ComparisonHtml(std::vector<Run> runs) {
  HtmlTable table{.caption = "All runs; good: the load was held, and of a search the SLO; latencies in milliseconds",
                  .head = {"run", "good", "p50", "p95", "p99", "inputs/s", "goodput/s", "calls in SLO, %", "errors, %"},
                  .rows = {}};
  for (const Run& run : runs) {
    const json values = run.json_of_run.value("values", json::object());
    table.rows.push_back({run.name, run.good ? "yes" : "no: " + run.why_not, Readable(JsonNumber(values, "p50_ms")),
                          Readable(JsonNumber(values, "p95_ms")), Readable(JsonNumber(values, "p99_ms")),
                          Readable(JsonNumber(values, "inputs_per_second")), Readable(JsonNumber(values, "goodput")),
                          Readable(100 * JsonNumber(values, "goodput_ratio")),
                          Readable(100 * JsonNumber(values, "error_ratio"))});
  }
  std::string out = table.Html();
  const auto rate = [](const Run& run) { return JsonNumber(run.json_of_run, "offered_rate"); };
  std::erase_if(runs, [&](const Run& run) { return !(rate(run) > 0); });
  if (runs.size() < 2) return out;
  std::stable_sort(runs.begin(), runs.end(), [&](const Run& a, const Run& b) { return rate(a) < rate(b); });
  HtmlChart latency{.title = "Latency by rate",
                    .note = "",
                    .x_label = "calls a second, offered",
                    .y_label = "milliseconds",
                    .x = {},
                    .series = {{.name = "p50"}, {.name = "p95"}, {.name = "p99"}}};
  HtmlChart goodput{.title = "Goodput by rate",
                    .note = "",
                    .x_label = "calls a second, offered",
                    .y_label = "inputs a second",
                    .x = {},
                    .series = {{.name = "answered without error"}, {.name = "goodput"}}};
  for (const Run& run : runs) {
    const json values = run.json_of_run.value("values", json::object());
    for (HtmlChart* chart : {&latency, &goodput}) chart->x.push_back(rate(run));
    latency.series[0].values.push_back(JsonNumber(values, "p50_ms"));
    latency.series[1].values.push_back(JsonNumber(values, "p95_ms"));
    latency.series[2].values.push_back(JsonNumber(values, "p99_ms"));
    goodput.series[0].values.push_back(JsonNumber(values, "inputs_per_second"));
    goodput.series[1].values.push_back(JsonNumber(values, "goodput"));
  }
  return absl::StrCat(out, "<div class=charts>\n", latency.Html(), goodput.Html(), "</div>\n");
}

std::vector<Run> RunsOf(const json& document) {
  std::vector<Run> runs;
  if (document.contains("search")) {
    for (json probe : document.at("search").at("probes")) {
      probe["offered_rate"] = probe.value("rate", json());
      const bool passed = probe.value("passed", false);
      const std::string name = absl::StrCat(Readable(JsonNumber(probe, "rate")), " calls/s");
      runs.push_back({name, passed, probe.value("why_not", ""), std::move(probe)});
    }
    return runs;
  }
  const json& result = document.at("result");
  if (result.is_null()) return runs;
  const double rate = JsonNumber(result, "offered_rate");
  const json config = document.value("config", json::object());
  runs.push_back({rate > 0 ? absl::StrCat(Readable(rate), " calls/s")
                           : absl::StrCat(Readable(JsonNumber(config, "concurrency")), " calls open"),
                  result.value("held", true), result.value("not_held", ""), result});
  return runs;
}

// One line that says what a document is of.
std::string Headline(const json& document) {
  const json config = document.value("config", json::object());
  const json machine = document.value("machine", json::object());
  const double rate = JsonNumber(config, "rate");
  const std::string load =
      rate > 0 ? absl::StrCat("open loop, ", Readable(rate), " calls/s")
               : absl::StrCat("closed loop, ", Readable(JsonNumber(config, "concurrency")), " calls open");
  std::vector<std::string> parts = {
      Text(document.value("started", json())),
      load,
      Text(config.value("mix", json())),
      With(JsonNumber(config, "duration"), "s"),
      absl::StrCat("SLO ", With(JsonNumber(config, "slo_ms"), "ms")),
      absl::StrCat("commit ", Text(document.value("commit", json()))),
      absl::StrCat(Text(machine.value("cpu", json())), ", ", Readable(JsonNumber(machine, "cores")), " cores")};
  const json versions = document.value("versions", json::object());
  for (const auto& [name, version] : versions.items()) parts.push_back(absl::StrCat(Words(name), " ", Text(version)));
  return absl::StrJoin(parts, " · ");
}

std::string DocumentHtml(const json& document) {
  const json config = document.value("config", json::object());
  const double slo_ms = JsonNumber(config, "slo_ms");
  const bool metrics_asked = !document.value("server_metrics", json::object()).value("before", json()).is_null();
  const json& result = document.at("result");
  const bool search = document.contains("search");
  std::string out =
      absl::StrCat("<p class=faint>", EscapeHtml(Headline(document)), "</p>\n",
                   "<details><summary>Configuration, machine, versions, models</summary>\n<div class=columns>\n<div>",
                   ConfigHtml(config), "</div>\n<div>", MachineHtml(document),
                   ModelsHtml(document.value("models", json::array())), "</div>\n</div></details>\n");
  if (result.is_null()) {
    out += "<p class=\"verdict bad\">No rate kept 99 % of the calls within the SLO.</p>\n";
  } else {
    if (search) {
      absl::StrAppend(&out, "<p class=\"verdict good\">Highest rate within the SLO: ",
                      With(JsonNumber(result, "offered_rate"), "calls/s"), ". Its figures:</p>\n");
    } else {
      out += Verdict(result.value("held", true), result.value("not_held", ""));
    }
    out += TilesHtml(result) + KindsHtml(result);
  }
  const std::vector<Run> runs = RunsOf(document);
  if (!search) {
    for (const Run& run : runs) out += RunChartsHtml(run.json_of_run, slo_ms, metrics_asked);
    return out;
  }
  out += "<h2>Rates tried</h2>\n" + ComparisonHtml(runs);
  for (const Run& run : runs) {
    const bool best = !result.is_null() && JsonNumber(run.json_of_run, "rate") == JsonNumber(result, "offered_rate");
    absl::StrAppend(&out, "<details class=run", best ? " open" : "", "><summary>", EscapeHtml(run.name),
                    run.good ? ", within the SLO" : ", not within the SLO", best ? ": the highest" : "", "</summary>\n",
                    RunChartsHtml(run.json_of_run, slo_ms, metrics_asked), "</details>\n");
  }
  return out;
}

std::string Page(const std::vector<json>& documents) {
  // Nothing is fetched: the policy says so to the browser.
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
      "'unsafe-inline'\">\n<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      "<title>Tributary load test</title>\n<style>\n",
      ReportStyle(), "</style>\n</head>\n<body>\n<h1>Tributary load test</h1>\n",
      "<noscript><p class=bad>Scripts are off, so there are no charts; their tables are here.</p></noscript>\n");
  if (documents.size() == 1) {
    out += DocumentHtml(documents.front());
  } else {
    std::vector<Run> all;
    for (const json& document : documents) {
      for (Run& run : RunsOf(document)) all.push_back(std::move(run));
    }
    out += ComparisonHtml(all);
    for (const json& document : documents) {
      const auto runs = RunsOf(document);
      const std::string name = document.contains("search") ? "Search" : runs.empty() ? "Run" : runs.front().name;
      absl::StrAppend(&out, "<details class=run><summary>", EscapeHtml(name), ", started ",
                      EscapeHtml(Text(document.value("started", json()))), "</summary>\n", DocumentHtml(document),
                      "</details>\n");
    }
  }
  return absl::StrCat(out, "<p class=faint>Made by tributary-bench; charts by Chart.js (MIT licence).</p>\n<script>\n",
                      ChartLibrary(), "\n</script>\n<script>\n", ReportScript(), "</script>\n</body>\n</html>\n");
}

}  // namespace

absl::StatusOr<std::string> HtmlReport(const std::vector<json>& documents) {
  try {
    return Page(documents);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no JSON of tributary-bench: ", error.what()));
  }
}

}  // namespace tributary::bench
