#include "server/metrics_server.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/answer_budget.h"
#include "server/engine_metrics.h"
#include "server/gpu_monitor.h"
#include "server/process_metrics.h"
#include "server/prometheus_observer.h"
#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/scrape.h"

namespace tributary {
namespace {

using Collectors = std::vector<std::shared_ptr<prometheus::Collectable>>;

Collectors AllCollectors(const Engine* engine) {
  return {std::make_shared<PrometheusObserver>(), std::make_shared<AnswerBudget>(1),
          std::make_shared<EngineMetrics>(engine), std::make_shared<ProcessMetrics>(BuildInfo{"0.1.0", "2.11.0"}),
          std::make_shared<GpuMonitor>(GpuMonitorOptions{.enabled = false})};
}

TEST_CASE("every name of the metric table appears in the scrape of a server that has no engine yet, and no other") {
  absl::StatusOr<std::unique_ptr<MetricsServer>> server =
      MetricsServer::Create("127.0.0.1:0", AllCollectors(/*engine=*/nullptr));
  REQUIRE(server.ok());
  REQUIRE((*server)->port() > 0);
  const std::string answer = HttpGet((*server)->port(), "/metrics");
  REQUIRE(answer.find("200 OK") != std::string::npos);
  const Scrape scrape(answer.substr(answer.find("\r\n\r\n") + 4));
  for (const MetricRow& row : MetricTable()) {
    CAPTURE(std::string(row.name));
    REQUIRE(scrape.names.count(std::string(row.name)) == 1);
  }
  for (const std::string& name : scrape.names) {
    CAPTURE(name);
    const bool of_the_exposer = name.rfind("exposer_", 0) == 0;  // prometheus-cpp's own
    bool in_table = false;
    for (const MetricRow& row : MetricTable()) in_table = in_table || row.name == name;
    REQUIRE((in_table || of_the_exposer));
  }
}

TEST_CASE("a port that is taken is refused with its address, and is free again once its server is gone") {
  absl::StatusOr<std::unique_ptr<MetricsServer>> first = MetricsServer::Create("127.0.0.1:0", {});
  REQUIRE(first.ok());
  const int port = (*first)->port();
  const std::string address = "127.0.0.1:" + std::to_string(port);
  absl::StatusOr<std::unique_ptr<MetricsServer>> second = MetricsServer::Create(address, {});
  REQUIRE(second.status().code() == absl::StatusCode::kUnavailable);
  REQUIRE(std::string(second.status().message()).find(address) != std::string::npos);
  first->reset();
  REQUIRE(HttpGet(port, "/metrics").empty());
  REQUIRE(MetricsServer::Create(address, {}).ok());
}

TEST_CASE("connections that say nothing delay neither scrapes nor the end") {
  absl::StatusOr<std::unique_ptr<MetricsServer>> server =
      MetricsServer::Create("127.0.0.1:0", AllCollectors(/*engine=*/nullptr));
  REQUIRE(server.ok());
  const int port = (*server)->port();
  std::vector<int> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(ConnectTo(port));
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(HttpGet(port, "/metrics").find("200 OK") != std::string::npos);
  server->reset();
  // With a time-out of 10 s and two threads, each of the two waited for that; 5 s leave room for a busy machine.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  for (const int connection : silent) close(connection);
}

TEST_CASE("answers not yet sent show as a gauge") {
  AnswerBudget answers(1000);
  REQUIRE(answers.Reserve(600).ok());
  REQUIRE(answers.Reserve(600).ok());  // one answer more than the limit
  REQUIRE(answers.Reserve(1).code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(Scrape(answers)["tributary_rpc_unsent_answer_bytes"] == 1200);
  answers.Release(600);
  REQUIRE(answers.Reserve(1).ok());
  REQUIRE(Scrape(answers)["tributary_rpc_unsent_answer_bytes"] == 601);
}

TEST_CASE("the engine's gauges are read from its snapshot at the moment of the scrape") {
  FakeEngine engine;
  EngineMetrics metrics(&engine);
  EngineSnapshot snapshot;
  snapshot.queues[1] = {.depth_items = 7, .capacity_items = 1024, .oldest_age = std::chrono::milliseconds(1500)};
  snapshot.lanes = {{.device = "cpu"},
                    {.device = "cpu",
                     .busy = {std::chrono::milliseconds(500), std::chrono::milliseconds(2500)},
                     .idle = {std::chrono::milliseconds(0), std::chrono::milliseconds(1500)},
                     .running_for = std::chrono::seconds(2),
                     .batches_in_flight = 2}};
  snapshot.requests_in_flight = 3;
  snapshot.items_in_flight = 9;
  snapshot.items_capacity = 16384;
  snapshot.bytes_in_flight = 100;
  snapshot.bytes_capacity = 1000;
  snapshot.prepare_depth_items = 4;
  engine.SetSnapshot(snapshot);

  const Scrape scrape(metrics);
  REQUIRE(scrape["tributary_queue_depth_items{modality=\"image\"}"] == 7);
  REQUIRE(scrape["tributary_queue_depth_items{modality=\"text\"}"] == 0);
  REQUIRE(scrape["tributary_queue_capacity_items{modality=\"image\"}"] == 1024);
  REQUIRE(scrape["tributary_queue_oldest_age_seconds{modality=\"image\"}"] == Approx(1.5));
  REQUIRE(scrape["tributary_lane_info{lane=\"0\",device=\"cpu\"}"] == 1);
  REQUIRE(scrape["tributary_lane_running_seconds{lane=\"1\"}"] == Approx(2));
  REQUIRE(scrape["tributary_lane_batches_in_flight{lane=\"1\"}"] == 2);
  REQUIRE(scrape["tributary_lane_busy_seconds_total{lane=\"1\",modality=\"text\"}"] == Approx(0.5));
  REQUIRE(scrape["tributary_lane_busy_seconds_total{lane=\"1\",modality=\"image\"}"] == Approx(2.5));
  REQUIRE(scrape["tributary_lane_busy_seconds_total{lane=\"0\",modality=\"image\"}"] == 0);
  REQUIRE(scrape["tributary_lane_idle_seconds_total{lane=\"1\",cause=\"preparing\"}"] == Approx(1.5));
  REQUIRE(scrape.count("tributary_lane_idle_seconds_total{") == 2 * kIdleCauseCount);
  REQUIRE(scrape["tributary_admission_requests_in_flight"] == 3);
  REQUIRE(scrape["tributary_admission_items_in_flight"] == 9);
  REQUIRE(scrape["tributary_admission_items_capacity"] == 16384);
  REQUIRE(scrape["tributary_admission_in_flight_bytes"] == 100);
  REQUIRE(scrape["tributary_admission_capacity_bytes"] == 1000);
  REQUIRE(scrape["tributary_prepare_depth_items"] == 4);
  REQUIRE(scrape["tributary_admission_draining"] == 0);

  snapshot.draining = true;
  snapshot.items_in_flight = 0;
  engine.SetSnapshot(snapshot);
  const Scrape later(metrics);
  REQUIRE(later["tributary_admission_draining"] == 1);
  REQUIRE(later["tributary_admission_items_in_flight"] == 0);
}

TEST_CASE("each model is described by an info series and its size") {
  FakeEngine engine;
  const Scrape scrape{EngineMetrics(&engine)};
  REQUIRE(scrape["tributary_model_info{model=\"fake\",revision=\"f0\",default=\"true\",modalities=\"text+image+pair\","
                 "dimensions=\"4\",compute_type=\"fp32\",image_compute_type=\"bf16\",fusion=\"weighted_mean\"}"] == 1);
  REQUIRE(scrape.count("tributary_model_info{") == 2);
  REQUIRE(scrape["tributary_model_parameters{model=\"second\"}"] == 10);
  REQUIRE(scrape["tributary_model_parameter_bytes{model=\"second\"}"] == 40);
  REQUIRE(scrape["tributary_model_self_check_cosine{model=\"second\"}"] == Approx(0.98));
  REQUIRE(scrape["tributary_model_self_check_passed{model=\"second\"}"] == 0);
  REQUIRE(scrape.count("tributary_model_self_check_passed{") == 1);
}

TEST_CASE("the process's own metrics and the build are plausible") {
  const Scrape scrape{ProcessMetrics(BuildInfo{"0.1.0", "2.11.0"})};
  REQUIRE(scrape["tributary_build_info{version=\"0.1.0\",libtorch=\"2.11.0\"}"] == 1);
  REQUIRE(scrape["process_resident_memory_bytes"] > 1e6);
  REQUIRE(scrape["process_virtual_memory_bytes"] >= scrape["process_resident_memory_bytes"]);
  REQUIRE(scrape["process_threads"] >= 1);
  REQUIRE(scrape["process_open_fds"] >= 3);
  REQUIRE(scrape["process_max_fds"] > scrape["process_open_fds"]);
  REQUIRE(scrape["process_cpu_seconds_total"] >= 0);
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  // btime and the clock of process starts are whole seconds and ticks; an hour covers the test's own age.
  REQUIRE(scrape["process_start_time_seconds"] < now + 2);
  REQUIRE(scrape["process_start_time_seconds"] > now - 3600);
}

TEST_CASE("the process's CPU time grows as it works") {
  const ProcessMetrics metrics(BuildInfo{});
  const double before = Scrape(metrics)["process_cpu_seconds_total"];
  double after = before;
  // Each look costs CPU time; the clock has ticks of 10 ms. A hundred thousand looks are seconds of it.
  for (int look = 0; look < 100000 && after <= before; ++look) after = Scrape(metrics)["process_cpu_seconds_total"];
  REQUIRE(after > before);
}

TEST_CASE("an open file shows in the process's metrics") {
  const ProcessMetrics metrics(BuildInfo{});
  const double before = Scrape(metrics)["process_open_fds"];
  const int extra = socket(AF_INET, SOCK_STREAM, 0);
  const double after = Scrape(metrics)["process_open_fds"];
  close(extra);
  REQUIRE(after == before + 1);
}

}  // namespace
}  // namespace tributary
