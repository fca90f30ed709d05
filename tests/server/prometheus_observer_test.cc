#include "server/prometheus_observer.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/scrape.h"

namespace tributary {
namespace {

using std::chrono::milliseconds;

TEST_CASE("every event series is there from the start, at 0") {
  PrometheusObserver observer;
  const Scrape scrape(observer);
  for (const auto& [name, value] : scrape.series) {
    CAPTURE(name);
    REQUIRE(value == 0);
  }
  REQUIRE(scrape.count("tributary_admission_calls_total{") == 3);
  REQUIRE(scrape.count("tributary_admission_rejected_total{") == 3 * kRejectReasonCount);
  REQUIRE(scrape.count("tributary_schedule_dropped_items_total{") == kModalityCount * kDropReasonCount);
  REQUIRE(scrape.count("tributary_pipeline_items_total{") == kModalityCount * 17);
  REQUIRE(scrape.count("tributary_lane_batches_total{") == kModalityCount * 17);
  REQUIRE(scrape.count("tributary_pipeline_stage_seconds_count{") == kModalityCount * 6);
  REQUIRE(scrape.count("tributary_rpc_finished_total{") == kRpcMethodCount * 17);
  REQUIRE(scrape.count("tributary_rpc_duration_seconds_count{") == kRpcMethodCount * 2);
}

TEST_CASE("no event adds a series: label sets are bounded") {
  PrometheusObserver observer;
  const size_t before = Scrape(observer).series.size();
  observer.OnBatch({.lane = 0, .items = 1, .status = absl::Status(static_cast<absl::StatusCode>(99), "odd")});
  observer.OnBatch({.lane = 5000, .status = {}});
  observer.OnItem({.code = static_cast<absl::StatusCode>(99), .times = {}});
  observer.OnRpcFinished(RpcMethod::kGetModel, static_cast<absl::StatusCode>(-3), milliseconds(1));
  const Scrape scrape(observer);
  REQUIRE(scrape.series.size() == before);
  REQUIRE(scrape["tributary_pipeline_items_total{modality=\"text\",code=\"UNKNOWN\"}"] == 1);
  REQUIRE(scrape["tributary_rpc_finished_total{method=\"GetModel\",code=\"UNKNOWN\"}"] == 1);
}

TEST_CASE("calls at the door are counted by kind, refusals by reason") {
  PrometheusObserver observer;
  observer.OnAdmitted(RequestKind::kPair, 6, 1000);
  observer.OnAdmitted(RequestKind::kPair, 3, 500);
  observer.OnRejected(RequestKind::kImage, RejectReason::kModalityItems);
  const Scrape scrape(observer);
  REQUIRE(scrape["tributary_admission_calls_total{kind=\"pair\"}"] == 2);
  REQUIRE(scrape["tributary_admission_items_total{kind=\"pair\"}"] == 9);
  REQUIRE(scrape["tributary_admission_bytes_total{kind=\"pair\"}"] == 1500);
  REQUIRE(scrape["tributary_admission_rejected_total{kind=\"image\",reason=\"modality_items\"}"] == 1);
  REQUIRE(scrape["tributary_admission_rejected_total{kind=\"text\",reason=\"modality_items\"}"] == 0);
}

TEST_CASE("a batch is counted by size, units and code") {
  PrometheusObserver observer;
  observer.OnBatch({.lane = 1,
                    .modality = Modality::kText,
                    .items = 5,
                    .useful_units = 100,
                    .computed_units = 128,
                    .device_time = milliseconds(250),
                    .status = absl::OkStatus()});
  const Scrape scrape(observer);
  REQUIRE(scrape["tributary_lane_batches_total{modality=\"text\",code=\"OK\"}"] == 1);
  REQUIRE(scrape["tributary_schedule_batch_items_sum{modality=\"text\"}"] == 5);
  REQUIRE(scrape["tributary_schedule_batch_items_bucket{modality=\"text\",le=\"4\"}"] == 0);
  REQUIRE(scrape["tributary_schedule_batch_items_bucket{modality=\"text\",le=\"8\"}"] == 1);
  REQUIRE(scrape["tributary_schedule_batch_units_sum{modality=\"text\"}"] == 100);
  REQUIRE(scrape["tributary_lane_useful_units_total{modality=\"text\"}"] == 100);
  REQUIRE(scrape["tributary_lane_computed_units_total{modality=\"text\"}"] == 128);
}

TEST_CASE("a failed batch does not count as useful work") {
  PrometheusObserver observer;
  observer.OnBatch({.lane = 0,
                    .modality = Modality::kImage,
                    .items = 1,
                    .useful_units = 50,
                    .computed_units = 0,
                    .device_time = milliseconds(10),
                    .status = absl::InternalError("device fault")});
  const Scrape scrape(observer);
  REQUIRE(scrape["tributary_lane_batches_total{modality=\"image\",code=\"INTERNAL\"}"] == 1);
  REQUIRE(scrape["tributary_lane_useful_units_total{modality=\"image\"}"] == 0);
}

TEST_CASE("drops and bad vectors are counted by reason and modality") {
  PrometheusObserver observer;
  observer.OnDropped(Modality::kText, DropReason::kTooLate);
  observer.OnBadVector(Modality::kFusion);
  observer.OnRetried(Modality::kText, true);
  observer.OnRetried(Modality::kText, true);
  observer.OnRetried(Modality::kImage, false);
  const Scrape scrape(observer);
  REQUIRE(scrape["tributary_schedule_dropped_items_total{modality=\"text\",reason=\"too_late\"}"] == 1);
  REQUIRE(scrape["tributary_lane_bad_vectors_total{modality=\"fusion\"}"] == 1);
  REQUIRE(scrape["tributary_pipeline_fp32_retries_total{modality=\"text\",outcome=\"good\"}"] == 2);
  REQUIRE(scrape["tributary_pipeline_fp32_retries_total{modality=\"image\",outcome=\"bad\"}"] == 1);
  REQUIRE(scrape["tributary_pipeline_fp32_retries_total{modality=\"fusion\",outcome=\"good\"}"] == 0);
}

TEST_CASE("an item counts in the stages it entered, and in the total only when it succeeded") {
  PrometheusObserver observer;
  StageTimes times;
  times.queue = milliseconds(3);
  times.compute = milliseconds(40);
  times.total = milliseconds(50);
  observer.OnItem({Modality::kText, absl::StatusCode::kOk, times});
  times.compute = Duration(0);
  observer.OnItem({Modality::kText, absl::StatusCode::kDeadlineExceeded, times});
  const Scrape scrape(observer);
  auto stage = [&](const std::string& suffix, const std::string& name) {
    return scrape["tributary_pipeline_stage_seconds_" + suffix + "{modality=\"text\",stage=\"" + name + "\"}"];
  };
  REQUIRE(stage("count", "queue") == 2);
  REQUIRE(stage("sum", "queue") == Approx(0.006));
  REQUIRE(stage("count", "compute") == 1);
  REQUIRE(stage("count", "prepare") == 0);
  REQUIRE(stage("count", "total") == 1);
  REQUIRE(scrape["tributary_pipeline_items_total{modality=\"text\",code=\"DEADLINE_EXCEEDED\"}"] == 1);
  const std::string bucket = "tributary_pipeline_stage_seconds_bucket{modality=\"text\",stage=\"compute\",le=";
  REQUIRE(scrape[bucket + "\"0.02\"}"] == 0);
  REQUIRE(scrape[bucket + "\"0.05\"}"] == 1);
  REQUIRE(scrape[bucket + "\"+Inf\"}"] == 1);
}

TEST_CASE("RPCs are counted when they start and when they end, and the open ones are the difference") {
  PrometheusObserver observer;
  observer.OnRpcStarted(RpcMethod::kEmbedText);
  observer.OnRpcStarted(RpcMethod::kEmbedText);
  observer.OnRpcFinished(RpcMethod::kEmbedText, absl::StatusCode::kInvalidArgument, milliseconds(7));
  const Scrape scrape(observer);
  REQUIRE(scrape["tributary_rpc_started_total{method=\"EmbedText\"}"] == 2);
  REQUIRE(scrape["tributary_rpc_finished_total{method=\"EmbedText\",code=\"INVALID_ARGUMENT\"}"] == 1);
  REQUIRE(scrape["tributary_rpc_in_flight{method=\"EmbedText\"}"] == 1);
  REQUIRE(scrape["tributary_rpc_duration_seconds_sum{method=\"EmbedText\",outcome=\"error\"}"] == Approx(0.007));
  REQUIRE(scrape["tributary_rpc_duration_seconds_count{method=\"EmbedText\",outcome=\"ok\"}"] == 0);
}

TEST_CASE("a value on a bucket's bound counts in that bucket, and all buckets add up while many threads observe") {
  static constexpr std::array<uint64_t, 3> kBounds = {10, 20, 30};
  AtomicHistogram histogram(kBounds, 0.1);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (uint64_t value = 1; value <= 40; ++value) histogram.Observe(value);
      });
    }
  }
  const auto collected = histogram.Collect();
  REQUIRE(collected.bucket.size() == 4);
  REQUIRE(collected.bucket[0].cumulative_count == 40);
  REQUIRE(collected.bucket[0].upper_bound == Approx(1.0));
  REQUIRE(collected.bucket[2].cumulative_count == 120);
  REQUIRE(collected.bucket[3].cumulative_count == 160);
  REQUIRE(collected.sample_count == 160);
  REQUIRE(collected.sample_sum == Approx(4 * 82.0));
}

}  // namespace
}  // namespace tributary
