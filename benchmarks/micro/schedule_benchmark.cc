// What the scheduler's thread spends: forming batches out of a large backlog, per batch and per item.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>

#include "engine/schedule/encoder_stream.h"

namespace tributary {
namespace {

struct NoSink final : ItemSink {
  void OnItemDone(const WorkItem& /*item*/, absl::Status /*status*/, std::vector<float> /*embedding*/) override {}
};

// Takes batches out of a backlog of state.range(0) texts and puts as many new ones in, so that it stays as large.
void FormBatches(benchmark::State& state) {
  const auto sink = std::make_shared<NoSink>();
  std::mt19937_64 random(1);
  TimePoint now(std::chrono::seconds(1));
  EncoderStream stream({Modality::kText, {{.device = 0, .program = nullptr, .max_units = 512, .max_items = 256}}}, {},
                       [](WorkItemPtr, DropReason) {});
  BatchOutcome outcome;
  for (int i = 0; i < 40; ++i) {
    outcome.useful_units = i % 2 == 0 ? 16 : 256;
    outcome.device_time = std::chrono::microseconds(1000 + 66 * outcome.useful_units);
    stream.Observe(0, outcome, now);
  }
  uint64_t arrivals = 0;
  const auto add = [&](WorkItemPtr item) {
    item->units = 8 + random() % 120;
    item->deadline = now + std::chrono::seconds(60) + std::chrono::microseconds(random() % 1000000);
    item->priority = random() % 4 == 0 ? Priority::kBulk : Priority::kInteractive;
    stream.Add(std::move(item), ++arrivals, now);
  };
  for (int64_t i = 0; i < state.range(0); ++i) add(std::make_unique<WorkItem>(sink));
  int64_t items = 0;
  for ([[maybe_unused]] auto _ : state) {
    stream.DropDead(now);
    Batch batch = stream.Form(0, now, now);
    items += static_cast<int64_t>(batch.items.size());
    for (WorkItemPtr& item : batch.items) add(std::move(item));
    now += std::chrono::microseconds(1);
  }
  state.SetItemsProcessed(items);
}
BENCHMARK(FormBatches)->Arg(16)->Arg(256)->Arg(8192);

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
