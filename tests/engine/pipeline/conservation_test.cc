// Whatever happens, every accepted request is completed exactly once and every permit comes back: random kinds,
// cancels, deadlines, failures, and destruction at a random moment.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/engine/pipeline/pipeline_test_support.h"

namespace tributary {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::seconds;

std::string RandomText(std::mt19937& random) {
  switch (random() % 24) {
    case 0:
      return std::string(fake::kRefused);
    case 1:
      return std::string(fake::kPreparerThrows);
    case 2:
      return std::string(fake::kNotANumber);
    case 3:
      return std::string(fake::kZeroVector);
    case 4:
      return std::string(fake::kRunFails);
    case 5:
      return std::string(fake::kRunThrows);
    case 6:
      return std::string(fake::kStageThrows);
    default:
      return std::string(1 + random() % 80, static_cast<char>('a' + random() % 26));
  }
}

EmbedRequest RandomRequest(std::mt19937& random, const Clock& clock) {
  const auto kind = static_cast<RequestKind>(random() % 3);
  std::vector<TestInput> inputs(1 + random() % 6);
  for (TestInput& input : inputs) {
    if (kind != RequestKind::kImage && random() % 8 != 0) input.text = RandomText(random);
    if (kind != RequestKind::kText && random() % 8 != 0) input.image = RandomText(random);
  }
  EmbedRequest request = MakeRequest(kind, std::move(inputs));
  request.cancel = std::make_shared<CancelToken>();
  request.options.priority = static_cast<Priority>(random() % 2);
  request.options.normalise = random() % 2 == 0;
  if (random() % 3 == 0) request.options.deadline = clock.Now() + microseconds(random() % 2000);
  return request;
}

// One accepted request. Completions may come after the submitting thread has gone on.
struct Sent {
  std::atomic<int> completions{0};
  std::atomic<bool> well_formed{true};
  size_t inputs = 0;
};

// An OK result has its vectors, another one has none.
bool WellFormed(const EmbedResponse& response, size_t inputs) {
  bool good = response.results.size() == inputs;
  for (const EmbedResult& result : response.results) {
    const bool vectors = !result.text.empty() || !result.image.empty() || !result.fused.empty();
    good = good && vectors == result.status.ok();
  }
  return good;
}

constexpr size_t kThreads = 3;

// Random requests from several threads, some of them cancelled. Returns what was accepted.
std::vector<std::unique_ptr<Sent>> SendRandom(Engine& engine, const Clock& clock, unsigned seed, size_t per_thread) {
  std::vector<std::vector<std::unique_ptr<Sent>>> sent(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed * 100 + static_cast<unsigned>(t));
      for (size_t i = 0; i < per_thread; ++i) {
        EmbedRequest request = RandomRequest(random, clock);
        auto cancel = request.cancel;
        auto record = std::make_unique<Sent>();
        record->inputs = request.inputs.size();
        Sent* const raw = record.get();
        const absl::Status status = engine.Submit(std::move(request), [raw](EmbedResponse response) {
          if (!WellFormed(response, raw->inputs)) raw->well_formed = false;
          ++raw->completions;
        });
        if (random() % 4 == 0) cancel->Cancel();
        if (status.ok()) {
          sent[t].push_back(std::move(record));
        } else if (raw->completions != 0) {
          raw->well_formed = false;  // refused, and completed all the same
          sent[t].push_back(std::move(record));
        }
      }
    });
  }
  std::vector<std::unique_ptr<Sent>> all;
  for (size_t t = 0; t < kThreads; ++t) {
    threads[t].join();
    for (auto& record : sent[t]) all.push_back(std::move(record));
  }
  return all;
}

void CheckOnceEach(const std::vector<std::unique_ptr<Sent>>& sent) {
  REQUIRE_FALSE(sent.empty());
  size_t wrong = 0;
  for (const auto& record : sent) {
    if (record->completions != 1 || !record->well_formed) ++wrong;
  }
  CHECK(wrong == 0);
}

EngineOptions SmallLimits() {
  EngineOptions options;
  options.admission.max_items = 200;  // so that admission refuses some
  options.admission.max_modality_items = {100, 100, 60};
  options.prepare.threads = 2;
  options.completion_threads = 2;
  return options;
}

TEST_CASE("Under random cancels, deadlines and failures every accepted request completes once and all permits return") {
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u);
  CAPTURE(seed);
  FakeModelOptions model;
  model.cost_per_batch = microseconds(50);
  EngineFixture f(SmallLimits(), model, 2);

  const auto sent = SendRandom(*f.engine, f.clock, seed, 200);
  f.engine->StopAdmitting();
  REQUIRE(f.engine->WaitUntilIdle(hours(1)));

  CheckOnceEach(sent);
  // The scheduler's gauge is as old as its last turn, which may still be on its way.
  EngineSnapshot idle = f.engine->Snapshot();
  const auto waits = [&idle] {
    return std::any_of(idle.queues.begin(), idle.queues.end(), [](const auto& queue) { return queue.depth_items > 0; });
  };
  for (const TimePoint end = f.clock.Now() + seconds(60); waits() && f.clock.Now() < end;) idle = f.engine->Snapshot();
  CHECK(idle.requests_in_flight == 0);
  CHECK(idle.items_in_flight == 0);
  CHECK(idle.bytes_in_flight == 0);
  for (const QueueSnapshot& queue : idle.queues) CHECK(queue.depth_items == 0);
}

TEST_CASE("Destroying the engine at a random moment completes everything once") {
  const unsigned seed = GENERATE(11u, 12u, 13u, 14u, 15u, 16u, 17u, 18u);
  CAPTURE(seed);
  FakeModelOptions model;
  model.cost_per_batch = microseconds(100 * (seed % 5));
  EngineFixture f(SmallLimits(), model, 1 + seed % 2);

  const auto sent = SendRandom(*f.engine, f.clock, seed, 5 + 17 * (seed % 4));
  f.engine.reset();

  CheckOnceEach(sent);
}

TEST_CASE("Destruction drops what waits with UNAVAILABLE and finishes what runs") {
  EngineOptions options;
  options.prepare.threads = 1;
  FakeModelOptions model;
  model.max_batch_items = 1;
  EngineFixture f(options, model);
  f.control->Hold();
  Answer answer;
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) texts.push_back("text " + std::to_string(i));
  REQUIRE(f.engine->Submit(TextRequest(texts), answer.Callback()).ok());
  f.control->WaitUntilBegun(1);
  std::thread releaser([&f] {
    // Once the scheduler has dropped what waited, the running batch may end; without a release the lanes would hang.
    f.observer.WaitUntilDropped(DropReason::kShutdown);
    f.control->Release();
  });
  f.engine.reset();
  releaser.join();

  const EmbedResponse& response = answer.Wait();
  size_t finished = 0;
  size_t dropped = 0;
  for (const EmbedResult& result : response.results) {
    if (result.status.ok()) ++finished;
    if (result.status.code() == absl::StatusCode::kUnavailable) ++dropped;
  }
  CHECK(finished >= 1);
  CHECK(dropped >= 1);
  CHECK(finished + dropped == texts.size());
  CHECK(finished == f.control->Begun());
  CHECK(answer.completions() == 1);
}

}  // namespace
}  // namespace tributary
