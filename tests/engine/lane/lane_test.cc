// Lanes on the fake device: overlap, slot reuse, events, failures, drain, times.
#include "engine/lane/lane.h"

#include <cmath>
#include <random>
#include <stdexcept>

#include "engine/api/cancel_token.h"
#include "tests/engine/lane/lane_test_support.h"
#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_device.h"

namespace tributary {
namespace {

using std::chrono::milliseconds;

// Operations of one batch on a device with its own memory.
const std::vector<std::string> kBatchOperations = {"copy_in", "record", "launch", "record", "copy_out", "record"};

// One lane set over the fake device and the fake text program.
struct Fixture {
  explicit Fixture(FakeDevice::Steps steps = FakeDevice::Steps::kByHand, size_t slots = 2) : device(&clock, steps) {
    auto created = MakeLanes(&device, program, 1, slots, &clock, &observer);
    REQUIRE(created.ok());
    lanes = *std::move(created);
    lanes->SetListener(&listener);
  }
  void Execute(Batch batch) { lanes->Execute(0, std::move(batch)); }
  LaneSnapshot Look(IdleCause waiting_for = IdleCause::kNoWork) const {
    return lanes->Snapshot(waiting_for, clock.Now())[0];
  }
  // Enqueued whole, then run.
  void RunWhole(size_t batches_before) {
    device.WaitUntilEnqueued((batches_before + 1) * kBatchOperations.size());
    device.StepAll();
  }

  FakeModelOptions options;
  std::shared_ptr<FakeControl> control = std::make_shared<FakeControl>();
  ServedModel model = MakeFakeModel(options, control);
  const BatchProgram& program = *model.replicas[0][0].program;
  FakeClock clock;
  FakeDevice device;
  RecordingObserver observer;
  RecordingListener listener;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::unique_ptr<LaneSet> lanes;
};

using Busy = std::array<Duration, kModalityCount>;
using Idle = std::array<Duration, kIdleCauseCount>;

Busy BusyText(Duration busy) { return {busy}; }

Idle Grown(const LaneSnapshot& before, const LaneSnapshot& after) {
  Idle grown;
  for (size_t i = 0; i < grown.size(); ++i) grown[i] = after.idle[i] - before.idle[i];
  return grown;
}

std::vector<float> Vector(std::string_view text) { return FakeTextVector(text, FakeModelOptions{}.info.dimensions); }

TEST_CASE("A second batch is staged and enqueued whole while the first has not even begun") {
  Fixture f;

  f.Execute(MakeTextBatch(f.program, f.sink, {"one", "three"}, 0, 1));
  f.Execute(MakeTextBatch(f.program, f.sink, {"two"}, 2, 2));
  f.device.WaitUntilEnqueued(2 * kBatchOperations.size());

  CHECK(f.device.Executed() == 0);  // so the lane has waited for nothing
  std::vector<std::string> expected = kBatchOperations;
  expected.insert(expected.end(), kBatchOperations.begin(), kBatchOperations.end());
  CHECK(f.device.Enqueued() == expected);
  CHECK(f.lanes->InFlight(0) == 2);
  CHECK(f.lanes->FreeSlots(0) == 0);
  CHECK(f.sink->Count() == 0);

  f.device.StepAll();
  CHECK(f.sink->At(0).embedding == Vector("one"));
  CHECK(f.sink->At(1).embedding == Vector("three"));
  CHECK(f.sink->At(2).embedding == Vector("two"));
  CHECK(f.lanes->FreeSlots(0) == 2);
  CHECK(f.device.Violations().empty());
}

TEST_CASE("Items are complete only when the event after the copy out has fired") {
  Fixture f;
  f.Execute(MakeTextBatch(f.program, f.sink, {"text"}));
  f.device.WaitUntilEnqueued(kBatchOperations.size());

  for (size_t i = 0; i + 1 < kBatchOperations.size(); ++i) {
    f.device.Step();
    CHECK(f.sink->Count() == 0);
    CHECK(f.lanes->InFlight(0) == 1);
  }
  f.device.Step();

  CHECK(f.sink->At(0).embedding == Vector("text"));
  CHECK(f.lanes->InFlight(0) == 0);
}

TEST_CASE("No staging slot is touched or reused before its event, whatever the order of steps") {
  Fixture f(FakeDevice::Steps::kByHand, 3);
  std::mt19937 random(7);
  constexpr size_t kBatches = 400;
  uint32_t inputs = 0;
  size_t executed = 0;
  std::vector<std::string> texts;

  while (executed < kBatches || f.lanes->InFlight(0) > 0) {
    if (executed < kBatches && f.lanes->FreeSlots(0) > 0 && random() % 2 == 0) {
      std::vector<std::string> batch;
      for (size_t i = 0; i <= random() % 5; ++i) batch.push_back("text " + std::to_string(random()));
      texts.insert(texts.end(), batch.begin(), batch.end());
      f.Execute(MakeTextBatch(f.program, f.sink, batch, inputs, ++executed));
      inputs += static_cast<uint32_t>(batch.size());
    }
    for (size_t i = 0; i < random() % 8; ++i) f.device.Step();
  }

  CHECK(f.device.Violations().empty());
  for (uint32_t i = 0; i < inputs; ++i) {
    const RecordingSink::Answer answer = f.sink->At(i);
    REQUIRE(answer.times_answered == 1);
    REQUIRE(answer.embedding == Vector(texts[i]));
  }
}

TEST_CASE("A failing batch fails its items and leaves the lane alive") {
  const std::string trigger(GENERATE(fake::kStageThrows, fake::kRunFails, fake::kRunThrows));
  CAPTURE(trigger);
  Fixture f(FakeDevice::Steps::kOwnThread);

  f.Execute(MakeTextBatch(f.program, f.sink, {"good neighbour", trigger}, 0, 1));
  f.Execute(MakeTextBatch(f.program, f.sink, {"next batch"}, 2, 2));
  f.listener.WaitFor(2);

  CHECK(f.sink->At(0).status.code() == absl::StatusCode::kInternal);
  CHECK(f.sink->At(1).status.code() == absl::StatusCode::kInternal);
  CHECK(f.sink->At(2).embedding == Vector("next batch"));
  size_t failed = 0;
  for (const BatchOutcome& outcome : f.listener.Outcomes()) {
    if (!outcome.status.ok()) ++failed;
  }
  CHECK(failed == 1);
  CHECK(f.device.Violations().empty());
}

TEST_CASE("Batches that fail in a row are counted; one that runs starts anew, one that was dropped says nothing") {
  const std::string trigger(GENERATE(fake::kStageThrows, fake::kRunFails));
  CAPTURE(trigger);
  Fixture f(FakeDevice::Steps::kOwnThread);
  size_t batches = 0;
  const auto failed_after = [&](const std::string& text, TimePoint deadline = kNoDeadline) {
    Batch batch = MakeTextBatch(f.program, f.sink, {text}, static_cast<uint32_t>(batches), batches + 1);
    batch.items[0]->deadline = deadline;
    f.Execute(std::move(batch));
    f.listener.WaitFor(++batches);
    return f.Look().consecutive_failed_batches;
  };
  CHECK(failed_after("good") == 0);
  CHECK(failed_after(trigger) == 1);
  CHECK(failed_after(trigger) == 2);
  CHECK(failed_after("expired", f.clock.Now()) == 2);
  CHECK(failed_after("good") == 0);
  CHECK(failed_after(trigger) == 1);
}

TEST_CASE("A copy or launch that fails on the device fails its batch only") {
  const std::string operation = GENERATE("copy_in", "launch", "copy_out", "record");
  CAPTURE(operation);
  Fixture f;
  f.device.FailWhenRun(operation);

  f.Execute(MakeTextBatch(f.program, f.sink, {"first"}, 0, 1));
  f.Execute(MakeTextBatch(f.program, f.sink, {"second"}, 1, 2));
  f.RunWhole(1);

  CHECK(f.sink->At(0).status.code() == absl::StatusCode::kInternal);
  CHECK(f.sink->At(1).embedding == Vector("second"));
}

TEST_CASE("An operation the stream refuses fails its batch, and the slot is used again only when it is free") {
  const auto [operation, skip] = GENERATE(table<std::string, size_t>(
      {{"copy_in", 0}, {"record", 0}, {"launch", 0}, {"record", 1}, {"copy_out", 0}, {"record", 2}}));
  CAPTURE(operation, skip);
  Fixture f(FakeDevice::Steps::kOwnThread);
  f.device.RefuseWhenEnqueued(operation, skip);

  f.Execute(MakeTextBatch(f.program, f.sink, {"first"}, 0, 1));
  f.listener.WaitFor(1);
  CHECK(f.sink->At(0).status.code() == absl::StatusCode::kInternal);
  CHECK(std::string(f.sink->At(0).status.message()).find("refuses") != std::string::npos);
  for (uint32_t i = 1; i <= 4; ++i) {
    f.Execute(MakeTextBatch(f.program, f.sink, {"text " + std::to_string(i)}, i, i + 1));
    f.listener.WaitFor(i + 1);
    CHECK(f.sink->At(i).embedding == Vector("text " + std::to_string(i)));
  }

  CHECK(f.device.Violations().empty());
  // Without its last event nothing would tell when the slot is free: the stream was drained and made anew.
  CHECK(f.device.StreamsCreated() == (operation == "record" && skip == 2 ? 2 : 1));
  CHECK(f.Look().running_for == Duration{0});
}

TEST_CASE("A sink that throws costs its own item only") {
  struct ThrowingSink final : ItemSink {
    void OnItemDone(const WorkItem& /*item*/, absl::Status /*status*/, std::vector<float> /*embedding*/) override {
      throw std::runtime_error("the sink was told to throw");
    }
  };
  Fixture f(FakeDevice::Steps::kOwnThread);
  Batch batch = MakeTextBatch(f.program, std::make_shared<ThrowingSink>(), {"thrown away"});
  batch.items.push_back(std::move(MakeTextBatch(f.program, f.sink, {"neighbour"}).items[0]));
  f.Execute(std::move(batch));
  f.Execute(MakeTextBatch(f.program, f.sink, {"next batch"}, 1, 2));
  f.listener.WaitFor(2);

  CHECK(f.sink->At(0).embedding == Vector("neighbour"));
  CHECK(f.sink->At(1).embedding == Vector("next batch"));
}

TEST_CASE("A vector that is not finite is refused for its item only") {
  Fixture f;
  f.Execute(MakeTextBatch(f.program, f.sink, {"a", std::string(fake::kNotANumber), "b"}));
  f.RunWhole(0);

  CHECK(f.sink->At(0).embedding == Vector("a"));
  CHECK(f.sink->At(1).status.code() == absl::StatusCode::kInternal);
  CHECK(f.sink->At(1).embedding.empty());
  CHECK(f.sink->At(2).embedding == Vector("b"));
  CHECK(f.observer.bad_vectors == 1);
}

TEST_CASE("A vector of length zero is refused only where it is to be normalised") {
  Fixture f;
  Batch batch =
      MakeTextBatch(f.program, f.sink, {std::string(fake::kZeroVector), std::string(fake::kZeroVector), "text"});
  batch.items[0]->normalise = true;
  batch.items[2]->normalise = true;
  f.Execute(std::move(batch));
  f.RunWhole(0);

  CHECK(f.sink->At(0).status.code() == absl::StatusCode::kInternal);
  CHECK(f.sink->At(1).embedding == std::vector<float>(f.options.info.dimensions, 0.0f));
  CHECK(f.observer.bad_vectors == 1);
  double length = 0;
  const std::vector<float> normalised = f.sink->At(2).embedding;
  for (const float x : normalised) length += static_cast<double>(x) * x;
  CHECK(std::sqrt(length) == Approx(1).margin(1e-6));  // rounding to float
  const std::vector<float> raw = Vector("text");
  CHECK(normalised[0] / normalised[1] == Approx(raw[0] / raw[1]).epsilon(1e-5));
}

TEST_CASE("Items cancelled or expired while the batch waited for the lane are dropped before they cost compute") {
  Fixture f;
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  Batch batch = MakeTextBatch(f.program, f.sink, {"cancelled", "lives", "expired"});
  batch.items[0]->cancel = cancel;
  batch.items[2]->deadline = f.clock.Now();
  f.Execute(std::move(batch));
  f.RunWhole(0);

  CHECK(f.sink->At(0).status.code() == absl::StatusCode::kCancelled);
  CHECK(f.sink->At(1).embedding == Vector("lives"));
  CHECK(f.sink->At(2).status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(f.control->BatchSizes(Modality::kText) == std::vector<size_t>{1});
  CHECK(f.listener.Outcomes()[0].useful_units == 5);
  CHECK(f.observer.drops == std::vector<DropReason>{DropReason::kCancelled, DropReason::kExpired});
}

TEST_CASE("A batch of which nothing is left is reported and never reaches the device") {
  Fixture f;
  Batch batch = MakeTextBatch(f.program, f.sink, {"expired"});
  batch.items[0]->deadline = f.clock.Now();
  f.Execute(std::move(batch));
  f.listener.WaitFor(1);

  CHECK(f.device.Enqueued().empty());
  CHECK(f.listener.Outcomes()[0].items == 0);
  CHECK(f.listener.Outcomes()[0].device_time == Duration{0});
  CHECK(f.lanes->FreeSlots(0) == 2);
}

TEST_CASE("Dropping the lanes runs everything that was handed over") {
  Fixture f(FakeDevice::Steps::kByHand, 4);
  for (uint32_t i = 0; i < 4; ++i) f.Execute(MakeTextBatch(f.program, f.sink, {"text " + std::to_string(i)}, i, i + 1));

  f.lanes.reset();

  for (uint32_t i = 0; i < 4; ++i) CHECK(f.sink->At(i).embedding == Vector("text " + std::to_string(i)));
  CHECK(f.listener.Outcomes().size() == 4);
}

TEST_CASE("Busy time runs from the start event to the end event, the running batch included") {
  Fixture f;
  f.Execute(MakeTextBatch(f.program, f.sink, {"text"}));
  f.device.WaitUntilEnqueued(kBatchOperations.size());

  f.clock.Advance(milliseconds(3));
  f.device.Step();  // copy in
  f.device.Step();  // start
  const TimePoint start = f.clock.Now();
  f.clock.Advance(milliseconds(10));
  CHECK(f.Look().running_for == milliseconds(10));
  CHECK(f.Look().busy == BusyText(milliseconds(10)));
  CHECK(f.Look().batches_in_flight == 1);
  f.device.Step();  // run
  f.device.Step();  // end
  f.clock.Advance(milliseconds(5));
  CHECK(f.Look().running_for == Duration{0});
  f.device.StepAll();

  CHECK(f.Look().busy == BusyText(milliseconds(10)));
  CHECK(f.Look().batches_in_flight == 0);
  CHECK(f.Look().device == "fake");
  CHECK(f.listener.Outcomes()[0].device_time == milliseconds(10));
  CHECK(f.observer.batches[0].device_time == milliseconds(10));
  CHECK(f.observer.batches[0].useful_units == 4);
  CHECK(f.observer.batches[0].computed_units == 4);
  CHECK(f.sink->At(0).times.compute_start == start);
  CHECK(f.sink->At(0).times.compute_end == start + milliseconds(10));
}

TEST_CASE("The gap between two executions is cut by what the lane was waiting for") {
  Fixture f;
  f.Execute(MakeTextBatch(f.program, f.sink, {"first"}, 0, 1));
  f.RunWhole(0);
  const LaneSnapshot before = f.Look();

  Batch batch = MakeTextBatch(f.program, f.sink, {"later", "earlier"}, 1, 2);
  f.clock.Advance(milliseconds(1));
  batch.items[1]->times.admitted = f.clock.Now();
  f.clock.Advance(milliseconds(2));
  batch.items[1]->times.queued = f.clock.Now();
  batch.items[0]->times.admitted = batch.items[0]->times.queued = f.clock.Now();
  f.clock.Advance(milliseconds(4));
  f.Execute(std::move(batch));
  f.device.WaitUntilEnqueued(2 * kBatchOperations.size());
  f.clock.Advance(milliseconds(8));
  f.device.StepAll();

  // In the order of IdleCause.
  CHECK(Grown(before, f.Look()) == Idle{milliseconds(1), milliseconds(2), milliseconds(4), milliseconds(8)});
}

TEST_CASE("A running gap shows at every look while there is no work, and all time is either busy or idle") {
  Fixture f;
  const TimePoint begin = f.clock.Now();
  for (int look = 1; look <= 3; ++look) {
    f.clock.Advance(milliseconds(100));
    CHECK(f.Look().idle == Idle{milliseconds(100 * look)});
  }
  Batch batch = MakeTextBatch(f.program, f.sink, {"text"});
  f.clock.Advance(milliseconds(5));
  batch.items[0]->times.admitted = f.clock.Now();
  f.clock.Advance(milliseconds(7));
  batch.items[0]->times.queued = f.clock.Now();
  f.Execute(std::move(batch));
  f.device.WaitUntilEnqueued(kBatchOperations.size());
  f.device.Step();  // copy in
  f.device.Step();  // start
  const Idle idle = {milliseconds(305), milliseconds(7)};
  CHECK(f.Look().idle == idle);
  f.clock.Advance(milliseconds(20));
  CHECK(f.Look().busy == BusyText(milliseconds(20)));
  f.clock.Advance(milliseconds(20));
  f.device.StepAll();
  CHECK(f.Look().busy == BusyText(milliseconds(40)));
  CHECK(f.Look().idle == idle);
  CHECK(f.Look().since_batch == Duration{0});
  CHECK(f.clock.Now() - begin == milliseconds(352));  // 305 + 7 + 40
  f.clock.Advance(milliseconds(3));
  CHECK(f.Look().since_batch == milliseconds(3));
}

TEST_CASE("A gap in which work is on its way shows once two looks agree on the cause, and is never counted twice") {
  Fixture f;
  f.clock.Advance(milliseconds(10));
  CHECK(f.Look(IdleCause::kPreparing).idle == Idle{});  // when the work came is not known yet
  f.clock.Advance(milliseconds(10));
  CHECK(f.Look(IdleCause::kPreparing).idle == Idle{milliseconds(0), milliseconds(20)});
  f.clock.Advance(milliseconds(10));
  CHECK(f.Look(IdleCause::kScheduling).idle == Idle{milliseconds(0), milliseconds(20)});
  Batch batch = MakeTextBatch(f.program, f.sink, {"text"});
  batch.items[0]->times.admitted = batch.items[0]->times.queued = f.clock.Now();
  f.Execute(std::move(batch));
  f.RunWhole(0);
  CHECK(f.Look().idle == Idle{milliseconds(10), milliseconds(20)});
}

TEST_CASE("Batches of several lanes all come back, each item answered once") {
  FakeModelOptions options;
  ServedModel model = MakeFakeModel(options, std::make_shared<FakeControl>());
  const BatchProgram& program = *model.replicas[0][0].program;
  SteadyClock clock;
  FakeDevice device(&clock, FakeDevice::Steps::kOwnThread);
  Observer observer;
  RecordingListener listener;
  auto sink = std::make_shared<RecordingSink>();
  auto lanes = MakeLanes(&device, program, 3, 2, &clock, &observer);
  REQUIRE(lanes.ok());
  (*lanes)->SetListener(&listener);

  uint32_t inputs = 0;
  for (uint64_t batch = 1; batch <= 300; ++batch) {
    const size_t lane = batch % 3;
    if ((*lanes)->FreeSlots(lane) == 0) listener.WaitFor(batch - 5);  // six in flight, of which two are this lane's
    while ((*lanes)->FreeSlots(lane) == 0) listener.WaitFor(listener.Outcomes().size() + 1);
    (*lanes)->Execute(lane, MakeTextBatch(program, sink, {std::to_string(batch), "x"}, inputs, batch));
    inputs += 2;
  }
  listener.WaitFor(300);

  CHECK(device.Violations().empty());
  for (uint32_t i = 0; i < inputs; ++i) {
    REQUIRE(sink->At(i).times_answered == 1);
    REQUIRE(sink->At(i).status.ok());
  }
}

}  // namespace
}  // namespace tributary
