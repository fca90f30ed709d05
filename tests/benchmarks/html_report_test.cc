// The HTML report: one file that needs nothing else, that nothing measured can break.
#include "benchmarks/client/html_report.h"

#include <limits>
#include <regex>
#include <string>

#include "benchmarks/client/html_parts.h"
#include "benchmarks/client/report.h"
#include "benchmarks/client/timeline.h"
#include "tests/support/catch.h"

namespace tributary::bench {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// JSON as the program writes it, of a run of two seconds with `answers` good ones.
json Document(int answers) {
  RunSummary summary;
  BoundedSeries<LoadBin> load;
  summary.offered_rate = 1000;
  summary.scheduled_calls = 2000;
  summary.window_seconds = 2;
  summary.elapsed_seconds = 2;
  const Outcome good{.ok_inputs = 1, .tokens = 7, .errors = {}};
  const Outcome bad{.ok_inputs = 0, .tokens = 0, .errors = {{"UNAVAILABLE", 1}}};
  for (int i = 0; i < 2000; ++i) {
    const Outcome& outcome = i < answers ? good : bad;
    summary.kinds[0].Add(outcome, 10ms, 50ms);
    load.At(i / 1000.0).answered.Add(outcome, 10ms, 50ms);
  }
  summary.load = LoadTimeline(load, 2);
  return {{"schema", 1},
          {"started", "2026-12-07T12:00:00Z"},
          {"commit", "abc123"},
          {"machine", {{"cpu", "A Processor"}, {"cores", 2}, {"memory_bytes", 8 * 1073741824.0}}},
          {"versions", {{"client", "0.1.0"}}},
          {"config", {{"mix", "text=1"}, {"rate", 1000.0}, {"concurrency", 1}, {"slo_ms", 50.0}, {"seed", 12345678}}},
          {"models", json::array({{{"name", "minilm"}, {"parameterCount", "22713216"}}})},
          {"server_metrics", {{"before", nullptr}, {"after", nullptr}}},
          {"result", ToJson(summary)}};
}

std::string Page(const std::vector<json>& documents) {
  const auto page = HtmlReport(documents);
  INFO(page.status().ToString());
  REQUIRE(page.ok());
  return *page;
}

// The page without the scripts and styles that are the same in every one.
std::string Content(const std::vector<json>& documents) {
  const std::string page = Page(documents);
  const size_t begin = page.find("<body>");
  return page.substr(begin, page.rfind("<script>\n/*!") == std::string::npos ? page.find("<script>", begin) - begin
                                                                             : page.find("<script>\n/*!") - begin);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("Numbers are written for people") {
  CHECK(Readable(0) == "0");
  CHECK(Readable(1234567) == "1,234,567");
  CHECK(Readable(1234.5678) == "1,235");
  CHECK(Readable(999.96) == "1,000");
  CHECK(Readable(123456) == "123,456");
  CHECK(Readable(12.345) == "12.3");
  CHECK(Readable(1.2345) == "1.23");
  CHECK(Readable(0.0456) == "0.046");
  CHECK(Readable(-1234.5) == "−1,234");
  CHECK(Readable(kNoValue) == "–");
  CHECK(Readable(std::numeric_limits<double>::infinity()) == "–");
  CHECK(Readable(1e300).size() == 301 + 100);
}

TEST_CASE("The report says what was run, where, and what came of it") {
  const std::string content = Content({Document(2000)});
  for (const char* part : {"abc123", "A Processor", "8 GiB", "2026-12-07T12:00:00Z", "open loop, 1,000 calls/s",
                           "client 0.1.0", "The load was held.", "22,713,216", "SLO", "50 ms", "12345678"}) {
    INFO(part);
    CHECK_THAT(content, ContainsSubstring(part));
  }
  CHECK_THAT(content, !ContainsSubstring("concurrency"));  // means nothing to an open loop
}

TEST_CASE("Every chart has axis labels with units and its figures as a table") {
  const std::string content = Content({Document(2000)});
  CHECK(Count(content, "<canvas ") == 3);
  CHECK(Count(content, "<figure>") == 3);
  CHECK(Count(content, "Figures as a table") == 3);
  for (const char* part : {"&quot;x&quot;:&quot;seconds into the run&quot;", "&quot;y&quot;:&quot;milliseconds&quot;",
                           "<th scope=col>p95</th>", "<th scope=row>1</th><td>10"}) {
    INFO(part);
    CHECK_THAT(content, ContainsSubstring(part));
  }
}

TEST_CASE("The report is one file: nothing in it is fetched, and a browser is told so") {
  const std::string page = Page({Document(2000)});
  CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  CHECK_THAT(page, ContainsSubstring("new Chart("));
  CHECK_THAT(page, ContainsSubstring("Chart.js v"));  // the library, with its licence
  const std::string content = Content({Document(2000)});
  for (const char* part : {" src=", " href=", "url(", "@import"}) {
    INFO(part);
    CHECK_THAT(content, !ContainsSubstring(part));
  }
  // Scripts end where they should: nothing in the library closes its element.
  CHECK(Count(page, "</script") == 2);
  CHECK(Count(page, "<link") == 0);
}

TEST_CASE("Hostile strings are shown as text wherever they stand") {
  const std::string attack = "</script><script>alert(\"1\")</script><img src=x onerror='alert(2)'>&amp;";
  json document = Document(1000);
  document["commit"] = document["started"] = document["machine"]["cpu"] = attack;
  document["config"]["mix"] = document["config"][attack] = attack;
  document["models"][0]["name"] = document["models"][0][attack] = attack;
  document["versions"][attack] = attack;
  document["result"]["held"] = false;
  document["result"]["not_held"] = attack;
  document["result"]["errors"][attack] = 3;
  document["result"]["kinds"][attack] = document["result"]["kinds"]["text"];
  document["result"]["server_timeline"] = {{"width_seconds", 1},
                                           {"start_seconds", {0, 1}},
                                           {"columns",
                                            {{"queue_depth_items/" + attack, {1, 2}},
                                             {"lane_idle_ratio/" + attack, {0, 0}},
                                             {"lane_busy_ratio/text", {1, 1}}}},
                                           {"samples", 2},
                                           {"failed_samples", 0}};
  const std::string content = Content({document});
  CHECK(Count(content, "&lt;script&gt;") > 10);
  CHECK(Count(content, "<script") == 0);
  CHECK(Count(content, "<img") == 0);
  CHECK(Count(content, "onerror='") == 0);
  CHECK(Count(Page({document}), "</script") == 2);
}

TEST_CASE("Bytes that are no UTF-8 break no report") {
  json document = Document(10);
  document["config"]["images"] = "\xFF\xFE<";
  document["result"]["server_timeline"] = {{"width_seconds", 1},
                                           {"start_seconds", {0}},
                                           {"columns", {{"queue_depth_items/\xFF", {1}}}},
                                           {"samples", 2},
                                           {"failed_samples", 0}};
  CHECK_THAT(Content({document}), ContainsSubstring("&lt;"));
}

TEST_CASE("A run without any success has its errors in the report, and no latency instead of one of 0") {
  const std::string content = Content({Document(0)});
  CHECK_THAT(content, ContainsSubstring("<th scope=row>UNAVAILABLE</th><td>2,000</td>"));
  CHECK_THAT(content, ContainsSubstring("<dt>latency p99</dt><dd>–"));
  CHECK_THAT(content, ContainsSubstring("[null,null]"));
  CHECK_THAT(content, !ContainsSubstring("nan"));
}

TEST_CASE("Without the server's metrics the report says why their charts are missing") {
  CHECK_THAT(Content({Document(10)}), ContainsSubstring("its metrics were not asked for (--metrics-url)"));

  json unread = Document(10);
  unread["server_metrics"]["before"] = {{"error", "no metrics: cannot connect"}};
  unread["result"]["server_timeline"] = {{"width_seconds", 1},
                                         {"start_seconds", json::array()},
                                         {"columns", json::object()},
                                         {"samples", 0},
                                         {"failed_samples", 2}};
  CHECK_THAT(Content({unread}), ContainsSubstring("could not be read 2 times, of 2"));
}

TEST_CASE("The server's charts leave out what is 0 throughout, and say so") {
  json document = Document(10);
  document["result"]["server_timeline"] = {{"width_seconds", 1},
                                           {"start_seconds", {0, 1}},
                                           {"columns",
                                            {{"batch_items/image", {nullptr, nullptr}},
                                             {"batch_items/text", {3, 4}},
                                             {"lane_busy_ratio/text", {0.5, 0.7}},
                                             {"lane_idle_ratio/no_work", {0.5, 0.3}},
                                             {"lane_idle_ratio/staging", {0, 0}},
                                             {"gpu_utilization_ratio/0", {0.25, 0.5}}}},
                                           {"samples", 3},
                                           {"failed_samples", 0}};
  const std::string content = Content({document});
  CHECK_THAT(content, ContainsSubstring("Not shown, as 0 or not measured throughout: idle: staging."));
  CHECK_THAT(content, ContainsSubstring("Not shown, as 0 or not measured throughout: image."));
  CHECK_THAT(content, ContainsSubstring("idle: no work"));
  CHECK_THAT(content, ContainsSubstring("lanes busy, mean</dt><dd>60"));
  CHECK_THAT(content, ContainsSubstring("GPU 0"));
}

TEST_CASE("A search shows every rate tried, and the rates beside one another") {
  json document = Document(2000);
  document["search"] = {{"rate", 1000.0}, {"probes", json::array()}};
  for (const double rate : {1000.0, 2000.0}) {
    json probe = {{"rate", rate}, {"passed", rate == 1000}, {"why_not", rate == 1000 ? "" : "too slow"}};
    for (const char* key : {"values", "timeline", "server_timeline"}) probe[key] = document["result"][key];
    document["search"]["probes"].push_back(probe);
  }
  const std::string content = Content({document});
  CHECK_THAT(content, ContainsSubstring("Highest rate within the SLO: 1,000 calls/s"));
  CHECK_THAT(content, ContainsSubstring("no: too slow"));
  CHECK_THAT(content, ContainsSubstring("Latency by rate"));
  CHECK(Count(content, "<canvas ") == 2 + 2 * 3);

  document["result"] = nullptr;
  CHECK_THAT(Content({document}), ContainsSubstring("No rate kept 99 % of the calls within the SLO"));
}

TEST_CASE("Several runs are in one report, compared first; one of an earlier version has no charts") {
  json earlier = Document(1500);
  earlier["result"].erase("timeline");
  earlier["result"].erase("server_timeline");
  const std::string content = Content({Document(2000), earlier});
  CHECK_THAT(content, ContainsSubstring("All runs"));
  CHECK(Count(content, "<details class=run>") == 2);
  CHECK(Count(content, "No course over time") == 1);
}

TEST_CASE("What is no JSON of this program is an error") {
  for (const char* text : {"{}", "[]", "3", R"({"result":5})", R"({"result":{"timeline":3}})",
                           R"({"result":{"timeline":{"columns":{},"start_seconds":{"a":1}}}, "config":[]})"}) {
    INFO(text);
    CHECK(absl::IsInvalidArgument(HtmlReport({json::parse(text)}).status()));
  }
}

}  // namespace
}  // namespace tributary::bench
