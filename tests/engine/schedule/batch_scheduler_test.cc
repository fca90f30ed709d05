// The scheduler's rules, turn by turn: fake clock, puppet lanes.
#include "engine/schedule/batch_scheduler.h"

#include <future>
#include <stdexcept>

#include "engine/schedule/length_buckets.h"
#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

ScheduleOptions WithMaxWait(Duration max_wait) {
  ScheduleOptions options;
  options.modalities[0].max_wait = max_wait;
  return options;
}

TEST_CASE("an idle lane gets work at once, even a single item") {
  SchedulerHouse house;
  const auto answer = house.Push({.units = 17});
  house.Turn();
  REQUIRE(house.puppet.held().size() == 1);
  const Batch& batch = house.puppet.held()[0];
  CHECK(batch.sequence == 1);
  CHECK(batch.useful_units == 17);
  CHECK(batch.formed_at == house.clock.Now());
  CHECK(batch.items[0]->times.batched == house.clock.Now());
  house.Finish(milliseconds(5));
  CHECK(answer->ok());
}

TEST_CASE("work goes to the emptiest lane, and to lanes that carry its encoder only") {
  SchedulerHouse house({}, {0, 0, 1}, {{Modality::kText, 512, 1, {0, 1}}, {Modality::kText, 512, 1, {1}}});
  for (int i = 0; i < 3; ++i) house.Push({.encoder = 0});
  house.Turn();
  for (size_t lane = 0; lane < 3; ++lane) CHECK(house.puppet.held(lane).size() == 1);
  for (int i = 0; i < 3; ++i) house.Push({.encoder = 1});
  house.Turn();
  CHECK(house.puppet.held(0).size() == 1);
  CHECK(house.puppet.held(1).size() == 1);
  CHECK(house.puppet.held(2).size() == 2);
  CHECK(house.scheduler.Waiting(Modality::kText).items == 2);
}

TEST_CASE("five requests at once behind a slow lane leave in at most three executions") {
  for (const bool trained : {false, true}) {
    for (const uint64_t units : {5, 17, 35, 50, 70, 100}) {
      CAPTURE(trained, units);
      SchedulerHouse house;
      if (trained) house.Train(milliseconds(2), microseconds(100));
      const size_t before = house.puppet.executed();
      std::vector<std::shared_ptr<Answer>> answers;
      for (int i = 0; i < 5; ++i) {
        answers.push_back(house.Push({.units = units}));
        house.Turn();
      }
      while (!house.puppet.held().empty())
        house.Finish(milliseconds(2) + microseconds(100) * static_cast<int64_t>(units));
      for (const auto& answer : answers) CHECK(answer->ok());
      CHECK(house.puppet.executed() - before <= 3);
    }
  }
}

TEST_CASE("short and long texts that arrive together are computed with at most a fifth of padding") {
  SchedulerHouse house({}, 1, {{Modality::kText, 2048, 256}});
  for (int i = 0; i < 100; ++i) house.Push({.units = i % 2 == 0 ? uint64_t{10} : uint64_t{500}});
  house.Turn();
  uint64_t useful = 0;
  uint64_t computed = 0;
  while (!house.puppet.held().empty()) {
    const uint64_t units = house.puppet.held()[0].useful_units;
    useful += units;
    computed += RoundedTokenTotal(units);
    house.Finish(milliseconds(1) + microseconds(50) * static_cast<int64_t>(RoundedTokenTotal(units)));
  }
  CHECK(useful == 50 * 510);
  CHECK(static_cast<double>(computed) / static_cast<double>(useful) <= 1.2);
}

TEST_CASE("the batch behind a running one is handed over only when that nears its end, and takes what came meanwhile") {
  SchedulerHouse house;
  house.Train(milliseconds(10), microseconds(300));  // 100 units: 40 ms
  house.Push({.units = 100});
  house.Turn();
  REQUIRE(house.puppet.held().size() == 1);
  for (int i = 0; i < 4; ++i) {
    house.Push({.units = 10});
    house.clock.Advance(milliseconds(6));
    house.Turn();
    CHECK(house.puppet.held().size() == 1);
  }
  house.clock.Advance(milliseconds(7));  // 31 of 40 ms
  house.Turn();
  REQUIRE(house.puppet.held().size() == 2);
  CHECK(house.puppet.held()[1].items.size() == 4);
}

TEST_CASE("while nothing is known of an encoder's cost, a lane gets its next batch in advance at once") {
  SchedulerHouse house;
  house.Push({});
  house.Turn();
  house.Push({});
  house.Turn();
  CHECK(house.puppet.held().size() == 2);
}

TEST_CASE("a lane that ends before it was expected to is not left idle") {
  SchedulerHouse house;
  house.Train(milliseconds(10), microseconds(300));
  house.Push({.units = 100});
  house.Turn();
  house.Push({.units = 10});
  house.Turn();
  CHECK(house.puppet.held().size() == 1);
  house.Finish(milliseconds(4));
  CHECK(house.puppet.held().size() == 1);
}

TEST_CASE("earliest deadline first: interactive items leave in order of deadline, whatever their order of arrival") {
  SchedulerHouse house({}, 1, {{Modality::kText, 512, 1}});
  std::vector<std::shared_ptr<Answer>> answers;
  for (const int deadline : {900, 300, 0, 600, 100}) {
    answers.push_back(house.Push({.deadline_after = milliseconds(deadline)}));
  }
  std::vector<const Answer*> order;
  house.Turn();
  while (!house.puppet.held().empty()) {
    house.Finish(milliseconds(1));
    for (const auto& answer : answers) {
      if (answer->done() && std::find(order.begin(), order.end(), answer.get()) == order.end()) {
        order.push_back(answer.get());
      }
    }
  }
  CHECK(order == std::vector<const Answer*>{answers[4].get(), answers[1].get(), answers[3].get(), answers[0].get(),
                                            answers[2].get()});
}

TEST_CASE(
    "interactive work goes first, but bulk starts at least every eighth batch, and so does work without deadline") {
  ScheduleOptions options;
  options.bulk_every = 8;
  SchedulerHouse house(options, 1, {{Modality::kText, 512, 1}});
  std::vector<std::shared_ptr<Answer>> bulk;
  std::vector<std::shared_ptr<Answer>> no_deadline;
  for (int i = 0; i < 5; ++i) {
    bulk.push_back(house.Push({.priority = Priority::kBulk}));
    no_deadline.push_back(house.Push({}));
  }
  const auto count = [](const auto& answers) {
    return std::count_if(answers.begin(), answers.end(), [](const auto& answer) { return answer->done(); });
  };
  for (int batch = 1; batch <= 50; ++batch) {
    for (int i = 0; i < 2; ++i) house.Push({.deadline_after = seconds(10)});
    house.Turn();
    house.Finish(milliseconds(1));
    CHECK(count(bulk) <= batch / 8);
    CHECK(count(bulk) >= std::min((batch - 2) / 8, 5));
    CHECK(count(no_deadline) >= std::min((batch - 3) / 9, 5));
  }
}

TEST_CASE("with the smallest bulk_every each of the three kinds of work starts every third batch") {
  ScheduleOptions options;
  options.bulk_every = 3;
  SchedulerHouse house(options, 1, {{Modality::kText, 512, 1}});
  std::array<std::vector<std::shared_ptr<Answer>>, 3> kinds;
  for (int i = 0; i < 20; ++i) {
    kinds[0].push_back(house.Push({.priority = Priority::kBulk}));
    kinds[1].push_back(house.Push({}));
    kinds[2].push_back(house.Push({.deadline_after = seconds(10)}));
  }
  house.Turn();
  for (int batch = 1; batch <= 30; ++batch) house.Finish(milliseconds(1));
  for (const auto& answers : kinds) {
    CHECK(std::count_if(answers.begin(), answers.end(), [](const auto& answer) { return answer->done(); }) >= 9);
  }
}

TEST_CASE("cancelled bulk work takes no turn from the bulk work behind it, and is let go all at once") {
  ScheduleOptions options;
  options.bulk_every = 4;
  SchedulerHouse house(options, 1, {{Modality::kText, 512, 1}});
  const auto cancel = std::make_shared<CancelToken>();
  std::vector<std::shared_ptr<Answer>> cancelled;
  for (int i = 0; i < 20; ++i) cancelled.push_back(house.Push({.priority = Priority::kBulk, .cancel = cancel}));
  const auto bulk = house.Push({.priority = Priority::kBulk});
  cancel->Cancel();
  for (int i = 0; i < 20; ++i) house.Push({.deadline_after = seconds(10)});  // there is always something more urgent
  house.Turn();
  for (int batch = 1; batch <= 6; ++batch) house.Finish(milliseconds(1));
  CHECK(bulk->ok());
  for (const auto& answer : cancelled) CHECK(answer->code == absl::StatusCode::kCancelled);
}

TEST_CASE("the max_wait policy holds a batch that is not full, and no longer than it says") {
  SchedulerHouse house(WithMaxWait(milliseconds(5)), 1, {{Modality::kText, 512, 4}});
  house.Push({});
  house.Turn();
  house.clock.Advance(milliseconds(4));
  house.Push({});
  house.Turn();
  CHECK(house.puppet.held().empty());
  house.clock.Advance(milliseconds(1));
  house.Turn();
  REQUIRE(house.puppet.held().size() == 1);
  CHECK(house.puppet.held()[0].items.size() == 2);
  house.Finish(milliseconds(1));
  for (int i = 0; i < 4; ++i) house.Push({});
  house.Turn();
  CHECK(house.puppet.held().size() == 1);  // full: no reason to wait
}

TEST_CASE("the max_wait policy never spends more than half of the time that an item has") {
  SchedulerHouse house(WithMaxWait(milliseconds(50)));
  house.Push({.deadline_after = milliseconds(20)});
  house.Turn();
  CHECK(house.puppet.held().empty());
  house.clock.Advance(milliseconds(10));
  house.Turn();
  CHECK(house.puppet.held().size() == 1);
}

TEST_CASE("late work is dropped unrun: expired, hopeless and cancelled items each get their answer") {
  SchedulerHouse house;
  house.Train(milliseconds(10), microseconds(300));
  const size_t before = house.puppet.executed();
  house.Push({.units = 100});  // keeps the lane busy for 40 ms
  house.Turn();
  const auto cancel = std::make_shared<CancelToken>();
  const auto cancelled = house.Push({.units = 10, .cancel = cancel});
  const auto hopeless = house.Push({.units = 100, .deadline_after = milliseconds(39)});
  const auto fine = house.Push({.units = 10, .deadline_after = milliseconds(200)});
  cancel->Cancel();
  house.Turn();
  CHECK(hopeless->code == absl::StatusCode::kDeadlineExceeded);
  CHECK(hopeless->dropped == DropReason::kTooLate);
  CHECK_FALSE(fine->done());
  house.Finish(milliseconds(40));
  CHECK(cancelled->code == absl::StatusCode::kCancelled);
  CHECK(cancelled->dropped == DropReason::kCancelled);
  house.Finish(milliseconds(13));
  CHECK(fine->ok());
  CHECK(house.puppet.executed() - before == 2);
  CHECK(house.drops.count(DropReason::kTooLate) == 1);
  CHECK(house.drops.count(DropReason::kCancelled) == 1);
}

TEST_CASE("an item that expires while the lanes are busy is answered when it expires") {
  SchedulerHouse house;
  for (int i = 0; i < 2; ++i) {  // running, and in advance: nothing is known of costs
    house.Push({});
    house.Turn();
  }
  const auto answer = house.Push({.deadline_after = milliseconds(20)});
  house.Turn();
  house.clock.Advance(milliseconds(19));
  house.Turn();
  CHECK_FALSE(answer->done());
  house.clock.Advance(milliseconds(1));
  house.Turn();
  CHECK(answer->code == absl::StatusCode::kDeadlineExceeded);
  CHECK(answer->dropped == DropReason::kExpired);
}

// Three batches in a row of a trained encoder took 2 s: the process was frozen, and its cost model believes it.
void Freeze(SchedulerHouse& house) {
  house.Train(milliseconds(10), Duration::zero());
  for (int i = 0; i < 3; ++i) {
    house.Push({.units = 10});
    house.Turn();
    house.Finish(seconds(2));
  }
}

TEST_CASE("after a freeze work with deadlines below the prediction is run again, and the model learns better at once") {
  SchedulerHouse house;
  Freeze(house);
  const auto hopeless = house.Push({.units = 10, .deadline_after = milliseconds(300)});
  house.Turn();
  CHECK(hopeless->dropped == DropReason::kTooLate);  // so it is predicted, and so it may be
  house.clock.Advance(seconds(4));                   // twice what the last batch took
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const auto probe = house.Push({.units = 10, .deadline_after = milliseconds(300)});
    house.Turn();
    REQUIRE(house.puppet.held().size() == 1);
    house.Finish(milliseconds(10));
    CHECK(probe->ok());
  }
  const auto late = house.Push({.units = 10, .deadline_after = milliseconds(5)});
  house.Turn();
  CHECK(late->dropped == DropReason::kTooLate);  // by a model that is right again
}

TEST_CASE("while the model is in doubt one item at a time is risked, and the rest waits for its own deadline") {
  SchedulerHouse house;
  Freeze(house);
  house.clock.Advance(seconds(4));
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(house.Push({.units = 10, .deadline_after = milliseconds(300 + i)}));
  house.Turn();
  REQUIRE(house.puppet.held().size() == 1);
  CHECK(house.puppet.held()[0].items.size() == 1);
  const auto expires = house.Push({.deadline_after = milliseconds(8)});
  house.Turn();
  CHECK_FALSE(expires->done());
  house.clock.Advance(milliseconds(8));
  house.Turn();
  CHECK(expires->dropped == DropReason::kExpired);
  while (!house.puppet.held().empty()) house.Finish(milliseconds(10));
  for (const auto& answer : answers) CHECK(answer->ok());
}

TEST_CASE("a model whose batches fail does not stay fresh") {
  SchedulerHouse house;
  house.Train(milliseconds(10), milliseconds(1));
  for (int i = 0; i < 11; ++i) {
    house.Push({});
    house.Turn();
    house.Finish(milliseconds(100), 0, absl::InternalError("device fault"));
  }
  house.Push({.units = 100, .deadline_after = milliseconds(20)});
  house.Turn();
  CHECK(house.puppet.held().size() == 1);
}

TEST_CASE("long work is not given up because of what short batches of one size cost") {
  SchedulerHouse house;
  for (int i = 0; i < 40; ++i) {
    house.Push({.units = 16});
    house.Turn();
    house.Finish(milliseconds(2));  // which, as it is not known, is nearly all fixed cost
  }
  const auto answer = house.Push({.units = 500, .deadline_after = milliseconds(50)});
  house.Turn();
  REQUIRE(house.puppet.held().size() == 1);
  house.Finish(milliseconds(3));
  CHECK(answer->ok());
}

TEST_CASE("with drop_late off, hopeless work runs as long as it has not expired") {
  ScheduleOptions options;
  options.drop_late = false;
  SchedulerHouse house(options);
  house.Train(milliseconds(10), microseconds(300));
  house.Push({.units = 100, .deadline_after = milliseconds(20)});
  house.Turn();
  CHECK(house.puppet.held().size() == 1);
}

TEST_CASE("items that were sorted in while work was dear are not dropped after it became cheap") {
  SchedulerHouse house({}, 1, {{Modality::kText, 512, 1}});
  house.Train(milliseconds(10), milliseconds(1));
  for (int i = 0; i < 5; ++i) house.Push({.units = 100});
  // Run as 256 tokens: thought to take 266 ms, so that it must start within 34 ms.
  const auto answer = house.Push({.units = 200, .deadline_after = milliseconds(300), .priority = Priority::kBulk});
  house.Turn();
  for (int i = 0; i < 4; ++i) house.Finish(milliseconds(1));
  house.clock.Advance(milliseconds(40));
  house.Turn();
  CHECK_FALSE(answer->done());
  house.Finish(milliseconds(1));
  house.Finish(milliseconds(2));
  CHECK(answer->ok());
}

TEST_CASE("waiting items are counted per modality, with the moment the oldest was queued") {
  SchedulerHouse house({}, 1, {{Modality::kText, 512, 1}, {Modality::kImage, 1 << 20, 8}});
  for (int i = 0; i < 2; ++i) {
    house.Push({});
    house.Turn();
  }
  CHECK(house.scheduler.Waiting(Modality::kText).items == 0);
  const TimePoint queued = house.clock.Now();
  house.Push({});
  house.clock.Advance(milliseconds(3));
  house.Push({});
  house.Turn();
  CHECK(house.scheduler.Waiting(Modality::kText).items == 2);
  CHECK(house.scheduler.Waiting(Modality::kText).oldest_queued == queued);
  CHECK(house.scheduler.Waiting(Modality::kImage).items == 0);
}

TEST_CASE("a sink that throws does not end the scheduler's thread") {
  struct ThrowingSink final : ItemSink {
    void OnItemDone(const WorkItem& /*item*/, absl::Status /*status*/, std::vector<float> /*embedding*/) override {
      throw std::runtime_error("the sink was told to throw");
    }
  };
  struct PromisingSink final : ItemSink {
    void OnItemDone(const WorkItem& /*item*/, absl::Status status, std::vector<float> /*embedding*/) override {
      code.set_value(status.code());
    }
    std::promise<absl::StatusCode> code;
  };
  SteadyClock clock;
  Observer observer;
  ModalityQueue<WorkItemPtr> text(8);
  PuppetExecutor puppet;
  BatchScheduler scheduler({}, SpecsOf({{Modality::kText, 512, 64}}), {&text, nullptr, nullptr}, &puppet, &clock,
                           &observer);
  scheduler.Start();
  auto promising = std::make_shared<PromisingSink>();
  for (const std::shared_ptr<ItemSink>& sink :
       {std::shared_ptr<ItemSink>(std::make_shared<ThrowingSink>()), std::shared_ptr<ItemSink>(promising)}) {
    auto item = std::make_unique<WorkItem>(sink);
    item->units = 1;
    item->deadline = clock.Now() - std::chrono::seconds(1);  // before the moment of any turn that may see it
    REQUIRE(text.TryPush(std::move(item)));
    scheduler.NotifyQueued();
  }
  CHECK(promising->code.get_future().get() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("Stop fails what waits in the scheduler and in the queues, and leaves batches in flight alone") {
  SchedulerHouse house({}, 1, {{Modality::kText, 512, 1}});
  const auto running = house.Push({});
  house.Turn();
  const auto waiting = house.Push({.units = 20});
  const auto also_waiting = house.Push({.units = 20});
  house.Turn();
  const auto queued = house.Push({});
  house.scheduler.Stop();
  CHECK(also_waiting->code == absl::StatusCode::kUnavailable);
  CHECK(queued->code == absl::StatusCode::kUnavailable);
  CHECK(queued->dropped == DropReason::kShutdown);
  CHECK(house.drops.count(DropReason::kShutdown) == 2);
  CHECK(house.scheduler.Waiting(Modality::kText).items == 0);
  house.puppet.Finish(0, milliseconds(1));
  CHECK(running->ok());
  house.puppet.Finish(0, milliseconds(1));
  CHECK(waiting->ok());
}

}  // namespace
}  // namespace tributary
