// Encoders on several devices: who gets which work, whose share is whose, what slow and broken replicas are given.
#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// The batch the lane holds first ends after `device_time`, which the clock does not pass.
void FinishNow(SchedulerHouse& house, size_t lane, Duration device_time) {
  house.puppet.Finish(lane, device_time);
  house.Turn();
}

// Teaches the cost of a batch of encoder 0 on every lane, one lane a device: fixed, whatever is in it.
void TrainLanes(SchedulerHouse& house, const std::vector<Duration>& cost) {
  // As many batches as lanes at a time: of lanes that nothing is known of each gets one.
  for (int i = 0; i < 20; ++i) {
    for (size_t lane = 0; lane < cost.size(); ++lane) house.Push({});
    house.Turn();
    for (size_t lane = 0; lane < cost.size(); ++lane) {
      while (!house.puppet.held(lane).empty()) FinishNow(house, lane, cost[lane]);
    }
  }
}

TEST_CASE("a batch goes to the replica that would be done with it first") {
  SchedulerHouse house({}, {0, 1}, {{Modality::kText, 512, 1, {0, 1}}});
  TrainLanes(house, {milliseconds(50), milliseconds(2)});
  house.Push({});
  house.Turn();
  CHECK(house.puppet.held(0).empty());
  CHECK(house.puppet.held(1).size() == 1);
  // The fast one is busy now: an idle lane is never left idle.
  house.Push({});
  house.Turn();
  CHECK(house.puppet.held(0).size() == 1);
}

TEST_CASE("of lanes that are all busy the next batch goes to the one that is done first") {
  SchedulerHouse house({}, {0, 0}, {{Modality::kText, 512, 1}});
  house.Train(milliseconds(10), Duration::zero());
  house.Push({});
  house.Turn();
  house.clock.Advance(milliseconds(6));
  house.Push({});
  house.Turn();
  REQUIRE(house.puppet.held(0).size() == 1);
  REQUIRE(house.puppet.held(1).size() == 1);
  house.clock.Advance(milliseconds(3));
  house.Push({});
  house.Turn();
  CHECK(house.puppet.held(0).size() == 2);
  CHECK(house.puppet.held(1).size() == 1);
}

TEST_CASE("each device keeps its own limits of a batch") {
  SchedulerHouse house;
  PuppetExecutor puppet(std::vector<size_t>{0, 1});
  BatchScheduler scheduler({}, {{Modality::kText, {{0, nullptr, 100, 64}, {1, nullptr, 400, 64}}}},
                           {&house.text, nullptr, nullptr}, &puppet, &house.clock, &house.drops);
  for (int i = 0; i < 100; ++i) house.Push({.units = 10});
  while (scheduler.RunOnce()) continue;
  REQUIRE(puppet.held(0).size() == 2);
  REQUIRE(puppet.held(1).size() == 2);
  CHECK(puppet.held(0)[0].useful_units == 100);
  CHECK(puppet.held(1)[0].useful_units == 400);
}

TEST_CASE("text is not held back for what images used of another device") {
  // Device 0 has both encoders, device 1 images only.
  SchedulerHouse house({}, {0, 1}, {{Modality::kText, 64, 4, {0}}, {Modality::kImage, 64, 1, {0, 1}}});
  LaneSimulator simulator(&house, [&](const Batch& batch) {
    return batch.modality == Modality::kText ? milliseconds(1) : milliseconds(5);
  });
  const auto fill = [&] {
    while (house.scheduler.Waiting(Modality::kText).items < 50) {
      house.Push({.units = 10});
      house.Turn();
    }
    while (house.scheduler.Waiting(Modality::kImage).items < 50) {
      house.Push({.units = 1, .modality = Modality::kImage, .encoder = 1});
      house.Turn();
    }
  };
  for (int i = 0; i < 20000; ++i) {  // two seconds
    fill();
    simulator.Step(microseconds(100));
  }
  // Images had device 1 for themselves, and of device 0 their half, no more and no less: 1.5 devices to 0.5.
  CHECK(ToSeconds(simulator.device_time[1]) / ToSeconds(simulator.device_time[0]) == Approx(3.0).epsilon(0.1));
  CHECK(ToSeconds(simulator.device_time[0] + simulator.device_time[1]) > 3.9);  // and no device was left idle
}

TEST_CASE("work that a slow replica would bring too late waits for the fast one, and is not given up") {
  SchedulerHouse house({}, {0, 1}, {{Modality::kText, 512, 1, {0, 1}}});
  TrainLanes(house, {milliseconds(100), milliseconds(2)});
  std::vector<std::shared_ptr<Answer>> urgent;
  for (int i = 0; i < 5; ++i) urgent.push_back(house.Push({.deadline_after = milliseconds(40)}));
  const auto patient = house.Push({.deadline_after = seconds(5)});
  house.Turn();
  // The slow one takes what it can bring in time.
  REQUIRE(house.puppet.held(0).size() == 1);
  CHECK(house.puppet.held(0)[0].items[0]->deadline == house.clock.Now() + seconds(5));
  for (int i = 0; i < 5; ++i) house.Finish(milliseconds(2), 1);
  for (const auto& answer : urgent) CHECK(answer->ok());
  CHECK(house.puppet.held(0).size() == 1);
  house.Finish(milliseconds(90), 0);
  CHECK(patient->ok());
  CHECK(house.drops.count(DropReason::kTooLate) == 0);
}

TEST_CASE("what no replica can bring in time is given up") {
  SchedulerHouse house({}, {0, 1}, {{Modality::kText, 512, 1, {0, 1}}});
  TrainLanes(house, {milliseconds(100), milliseconds(20)});
  const auto hopeless = house.Push({.deadline_after = milliseconds(10)});
  house.Turn();
  CHECK(hopeless->dropped == DropReason::kTooLate);
}

TEST_CASE("a replica whose batches fail gets little work while another one is well, and all of it again when it is") {
  SchedulerHouse house({}, {0, 1}, {{Modality::kText, 512, 1, {0, 1}}});
  TrainLanes(house, {milliseconds(5), milliseconds(5)});
  size_t failed = 0;
  size_t good = 0;
  bool broken = true;
  std::vector<std::shared_ptr<Answer>> answers;
  const auto run = [&](int steps) {
    failed = good = 0;
    for (int i = 0; i < steps; ++i) {
      answers.push_back(house.Push({}));
      house.clock.Advance(milliseconds(5));
      house.Turn();
      while (!house.puppet.held(0).empty()) {  // it fails at once
        house.puppet.Finish(0, broken ? Duration::zero() : milliseconds(5),
                            broken ? absl::InternalError("device fault") : absl::OkStatus());
        failed += broken ? 1 : 0;
        good += broken ? 0 : 1;
        house.Turn();
      }
      if (!house.puppet.held(1).empty()) {
        FinishNow(house, 1, milliseconds(5));
        ++good;
      }
    }
  };
  run(1000);
  CHECK(failed >= 3);  // it is tried again
  CHECK(failed < 20);
  CHECK(good > 970);
  broken = false;
  run(3000);
  CHECK(failed == 0);
  house.Push({});
  house.Push({});
  house.Turn();
  CHECK(house.puppet.held(0).size() == 1);
  CHECK(house.puppet.held(1).size() == 1);
}

TEST_CASE("where all replicas fail all are tried, and the failures are told") {
  SchedulerHouse house({}, {0, 1}, {{Modality::kText, 512, 1, {0, 1}}});
  for (int i = 0; i < 100; ++i) {
    const auto answer = house.Push({});
    house.Turn();
    const size_t lane = house.puppet.held(0).empty() ? 1 : 0;
    REQUIRE(house.puppet.held(lane).size() == 1);
    house.Finish(milliseconds(1), lane, absl::InternalError("device fault"));
    CHECK(answer->code == absl::StatusCode::kInternal);
  }
}

}  // namespace
}  // namespace tributary
