#include "engine/schedule/batch_policy.h"

#include <chrono>

#include "engine/schedule/length_buckets.h"
#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

constexpr Priority kInteractive = Priority::kInteractive;
constexpr Priority kBulk = Priority::kBulk;

// One waiting set and a cost model of 1 ms + 50 us a unit, at a fixed moment.
struct Table {
  Table() {
    for (int i = 0; i < 40; ++i) {
      const uint64_t units = i % 2 == 0 ? 10 : 100;
      cost.Observe(units, milliseconds(1) + microseconds(50) * static_cast<int64_t>(units));
    }
  }
  // The item's place in the order of adding is its name in the results.
  void Add(uint64_t units, Duration deadline_after = Duration::zero(), Priority priority = kInteractive,
           std::shared_ptr<CancelToken> cancel = nullptr) {
    auto [item, answer] = MakeItem(
        {.units = units, .deadline_after = deadline_after, .priority = priority, .cancel = std::move(cancel)}, now);
    const TimePoint start_by = StartBy(item->deadline, units, cost, limits.drop_late);
    waiting.Add(std::move(item), {start_by, arrivals++});
    answers.push_back(std::move(answer));
  }
  BatchChoice Choose() {
    return ChooseBatch(waiting, cost, limits, {now, now + lane_busy_for, turn, shedding, 0, drops_late});
  }
  static std::vector<uint64_t> Names(const std::vector<WaitingSet::Position>& positions) {
    std::vector<uint64_t> names;
    for (const auto& position : positions) names.push_back(position.urgency.arrival);
    return names;
  }
  std::vector<uint64_t> Chosen() { return Names(Choose().items); }

  TimePoint now{seconds(100)};
  CostModel cost;
  BatchLimits limits{512, 64, milliseconds(100), true};
  Duration lane_busy_for{0};
  Turn turn = Turn::kMostUrgent;
  bool shedding = false;
  bool drops_late = true;
  WaitingSet waiting;
  std::vector<std::shared_ptr<Answer>> answers;
  uint64_t arrivals = 0;
};

using Order = std::vector<uint64_t>;

TEST_CASE("the earliest deadline starts the batch and goes on in order, items without deadline last by arrival") {
  Table table;
  table.Add(10);
  table.Add(10, milliseconds(300));
  table.Add(10);
  table.Add(10, milliseconds(100));
  table.Add(10, milliseconds(200));
  CHECK(table.Chosen() == Order{3, 4, 1, 0, 2});
}

TEST_CASE("a long item goes before a short one when it has to start earlier to meet its deadline") {
  Table table;
  table.limits.max_items = 1;
  table.Add(10, milliseconds(100));   // must start after 98.5 ms
  table.Add(400, milliseconds(105));  // must start after 84 ms
  CHECK(table.Chosen() == Order{1});
}

TEST_CASE("interactive starts before bulk, even when bulk is more urgent, and bulk fills what is left") {
  Table table;
  table.Add(10, milliseconds(50), kBulk);
  table.Add(10, milliseconds(500));
  CHECK(table.Chosen() == Order{1, 0});
}

TEST_CASE("a batch fills from the seed's own length class first, then from its neighbours") {
  Table table;
  table.limits.max_units = 256;
  table.Add(100, seconds(1));
  table.Add(10, seconds(2));
  table.Add(40, seconds(3));
  table.Add(110, seconds(4));
  table.Add(70, seconds(5));
  table.Add(12, seconds(6));
  CHECK(table.Chosen() == Order{0, 3, 2});
}

TEST_CASE("limits of units and items are kept, and one item always fits") {
  Table table;
  table.limits.max_units = 100;
  for (int i = 0; i < 5; ++i) table.Add(30);
  CHECK(table.Chosen() == Order{0, 1, 2});
  table.limits.max_items = 2;
  CHECK(table.Chosen() == Order{0, 1});
  table.limits = {10, 64, microseconds(1), true};
  CHECK(table.Chosen() == Order{0});
}

TEST_CASE("a batch is cut to the longest time a batch may take") {
  Table table;
  table.limits.max_time = milliseconds(5);  // 80 units
  for (int i = 0; i < 10; ++i) table.Add(30);
  CHECK(table.Chosen() == Order{0, 1});
}

TEST_CASE("no member misses its deadline because of the others") {
  Table table;
  table.Add(100, milliseconds(10));  // alone 6 ms; with another hundred 11 ms
  table.Add(100, milliseconds(40));
  table.Add(10, milliseconds(40));
  CHECK(table.Chosen() == Order{0, 2});
}

TEST_CASE("a lane that is busy for long is not given what it would finish too late") {
  Table table;
  table.lane_busy_for = milliseconds(30);
  table.Add(100, milliseconds(20));
  table.Add(100, milliseconds(80));
  CHECK(table.Chosen() == Order{1});
}

TEST_CASE("cancelled, expired and hopeless items are not chosen, and reported when they are met") {
  Table table;
  const auto cancel = std::make_shared<CancelToken>();
  table.Add(10, seconds(1), kInteractive, cancel);
  table.Add(400, milliseconds(20));  // alone 21 ms
  table.Add(10, milliseconds(20));
  const auto why = [&](uint64_t units, uint64_t name, TimePoint start_by) {
    return WhyDead(table.waiting.At({kInteractive, LengthClass(units), {start_by, name}}), table.now, table.cost, true);
  };
  const TimePoint deadline = table.now + milliseconds(20);
  const TimePoint start_by[] = {StartBy(table.now + seconds(1), 10, table.cost, true),
                                StartBy(deadline, 400, table.cost, true), StartBy(deadline, 10, table.cost, true)};
  CHECK_FALSE(why(10, 0, start_by[0]).has_value());
  cancel->Cancel();
  CHECK(why(10, 0, start_by[0]) == DropReason::kCancelled);
  CHECK(why(400, 1, start_by[1]) == DropReason::kTooLate);
  CHECK_FALSE(why(10, 2, start_by[2]).has_value());
  const BatchChoice choice = table.Choose();
  CHECK(Table::Names(choice.items) == Order{2});
  CHECK(Table::Names(choice.dead) == Order{0});
  table.now += milliseconds(20);
  CHECK(why(10, 2, start_by[2]) == DropReason::kExpired);
}

TEST_CASE("nothing is hopeless by a model that is not trained, or when late work is not to be dropped") {
  Table table;
  table.limits.drop_late = table.drops_late = false;
  table.Add(400, milliseconds(20));
  CHECK(table.Chosen() == Order{0});
  table.limits.drop_late = table.drops_late = true;
  table.cost = CostModel();
  table.cost.Observe(400, seconds(1));
  CHECK(table.Chosen() == Order{0});
}

TEST_CASE("by a model that is not fresh, hopeless work starts after all else, and then alone") {
  Table table;
  table.drops_late = false;
  table.Add(400, milliseconds(20));  // alone 21 ms
  table.Add(10, milliseconds(20));
  CHECK(table.Chosen() == Order{1});
  Table probe;
  probe.drops_late = false;
  probe.Add(400, milliseconds(20));
  probe.Add(400, milliseconds(19));
  probe.Add(400, milliseconds(18));
  CHECK(probe.Chosen() == Order{2});
}

TEST_CASE("a bulk turn starts with the bulk item that has waited longest, a turn without deadline likewise") {
  Table table;
  table.Add(10, milliseconds(100));
  table.Add(10);
  table.Add(10, Duration::zero(), kBulk);
  table.Add(10, milliseconds(50), kBulk);
  table.turn = Turn::kOldestBulk;
  CHECK(table.Chosen() == Order{2, 3, 0, 1});
  table.turn = Turn::kWithoutDeadline;
  CHECK(table.Chosen().front() == 1);
}

TEST_CASE("a bulk turn passes over the dead to the oldest bulk item that lives, and reports all it met") {
  Table table;
  const auto cancel = std::make_shared<CancelToken>();
  table.Add(10, milliseconds(100));
  for (int i = 0; i < 3; ++i) table.Add(10, Duration::zero(), kBulk, cancel);
  table.Add(10, Duration::zero(), kBulk);
  table.limits.max_items = 1;
  table.turn = Turn::kOldestBulk;
  cancel->Cancel();
  const BatchChoice choice = table.Choose();
  CHECK(Table::Names(choice.items) == Order{4});
  CHECK(Table::Names(choice.dead) == Order{1, 2, 3});
}

TEST_CASE("a turn for work that is not there falls to the most urgent") {
  for (const Turn turn : {Turn::kOldestBulk, Turn::kWithoutDeadline}) {
    Table table;
    table.turn = turn;
    table.Add(10, milliseconds(100));
    CHECK(table.Chosen() == Order{0});
  }
}

TEST_CASE("while shedding, an item that would make for a small batch is passed over; otherwise it is served first") {
  Table table;
  table.Add(10, milliseconds(3));
  for (int i = 0; i < 50; ++i) table.Add(20, milliseconds(200));
  CHECK(table.Chosen() == Order{0});
  table.shedding = true;
  const Order chosen = table.Chosen();
  CHECK(chosen.front() == 1);
  CHECK(chosen.size() == 25);
}

TEST_CASE("fifo takes interactive before bulk by arrival, whatever lengths and deadlines, up to the first misfit") {
  Table table;
  table.limits.fifo = true;
  table.Add(100, milliseconds(900));
  table.Add(10, milliseconds(50), kBulk);
  table.Add(300, milliseconds(1));  // hopeless by the model
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  table.Add(10, milliseconds(900), kInteractive, cancel);
  table.Add(10, milliseconds(20));
  CHECK(table.Chosen() == Order{0, 2, 4, 1});
  CHECK(Table::Names(table.Choose().dead) == Order{3});
  CHECK(table.Choose().units == 420);
  table.limits.max_units = 405;
  CHECK(table.Chosen() == Order{0, 2});
  table.limits.max_items = 1;
  CHECK(table.Chosen() == Order{0});
}

TEST_CASE("padded, each item counts as the largest of its batch, and one item always fits") {
  Table table;
  table.limits.fifo = table.limits.padded = true;
  table.limits.max_units = 300;
  table.Add(10);
  table.Add(100);
  table.Add(90);
  table.Add(1);
  CHECK(table.Chosen() == Order{0, 1, 2});
  CHECK(table.Choose().units == 200);
  table.limits.max_units = 9;
  CHECK(table.Chosen() == Order{0});
}

TEST_CASE("the last items are left for the next batch when they would bring little but padding") {
  Table table;
  table.cost = CostModel(&RoundedTokenTotal);
  for (int i = 0; i < 40; ++i) {
    const uint64_t units = i % 2 == 0 ? 16 : 96;
    table.cost.Observe(units, microseconds(100) + microseconds(50) * static_cast<int64_t>(units));
  }
  for (int i = 0; i < 9; ++i) table.Add(17);  // 153 tokens would run as 256
  CHECK(table.Chosen().size() == 7);          // 119 run as 128
  for (int i = 0; i < 4; ++i) table.Add(17);  // 221 run as 256: good enough
  CHECK(table.Chosen().size() == 13);
}

}  // namespace
}  // namespace tributary
