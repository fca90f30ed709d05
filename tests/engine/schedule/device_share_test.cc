// Shares of device time between modalities, and between encoders of one: simulated lanes, saturated queues.
#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

struct Saturated {
  explicit Saturated(size_t lanes, double text_weight = 2, double image_weight = 1)
      : house(Options(text_weight, image_weight), lanes, {{Modality::kText, 256, 256}, {Modality::kImage, 16, 16}}),
        simulator(&house, [this](const Batch& batch) {
          const auto units = static_cast<int64_t>(batch.useful_units);
          return batch.modality == Modality::kText ? text_unit * units : image_unit * units;
        }) {}

  static ScheduleOptions Options(double text_weight, double image_weight) {
    ScheduleOptions options;
    options.modalities[0].weight = text_weight;
    options.modalities[1].weight = image_weight;
    return options;
  }

  // Keeps both queues full until so many batches of each modality are done.
  void RunBatches(size_t batches) {
    const auto target = [&](size_t modality) { return simulator.batches[modality] + batches; };
    const size_t text = target(0);
    const size_t image = target(1);
    while (simulator.batches[0] < text || simulator.batches[1] < image) {
      while (house.scheduler.Waiting(Modality::kText).items + house.text.SizeApprox() < 2000) {
        house.Push({.units = 16});
      }
      while (house.scheduler.Waiting(Modality::kImage).items + house.image.SizeApprox() < 200) {
        house.Push({.units = 1, .modality = Modality::kImage, .encoder = 1});
      }
      simulator.Step(microseconds(100));
    }
  }
  // Text over image device time while so many more batches of each run.
  double Ratio(size_t batches) {
    const auto before = simulator.device_time;
    RunBatches(batches);
    return ToSeconds(simulator.device_time[0] - before[0]) / ToSeconds(simulator.device_time[1] - before[1]);
  }

  Duration text_unit = microseconds(100);
  Duration image_unit = milliseconds(1);
  SchedulerHouse house;
  LaneSimulator simulator;
};

// Batches of each modality until the cost model follows a tenfold change: three to notice, one in flight on each lane
// and one in advance, and as many again to even out what was charged wrongly.
constexpr size_t kSettle = 10;

TEST_CASE("saturated modalities with weights 2:1 and unit costs 1:10 get device time 2:1, again after costs change") {
  for (const size_t lanes : {1, 2}) {
    CAPTURE(lanes);
    Saturated saturated(lanes);
    saturated.RunBatches(kSettle);
    CHECK(saturated.Ratio(60) == Approx(2.0).epsilon(0.10));
    saturated.image_unit /= 10;
    saturated.RunBatches(kSettle);
    CHECK(saturated.Ratio(60) == Approx(2.0).epsilon(0.10));
    saturated.text_unit *= 10;
    saturated.RunBatches(kSettle);
    CHECK(saturated.Ratio(60) == Approx(2.0).epsilon(0.10));
    saturated.image_unit *= 10;
    saturated.text_unit /= 10;
    saturated.RunBatches(kSettle);
    CHECK(saturated.Ratio(60) == Approx(2.0).epsilon(0.10));
  }
}

TEST_CASE("weights count, not costs: equal weights give equal device time") {
  Saturated saturated(1, 1, 1);
  saturated.RunBatches(kSettle);
  CHECK(saturated.Ratio(60) == Approx(1.0).epsilon(0.10));
}

TEST_CASE("a modality that was idle gets its share at once when it comes back, and no more") {
  Saturated saturated(1);
  saturated.RunBatches(kSettle);
  for (int i = 0; i < 20000; ++i) {  // two seconds of text alone
    while (saturated.house.scheduler.Waiting(Modality::kText).items < 2000) {
      saturated.house.Push({.units = 16});
      saturated.house.Turn();
    }
    saturated.simulator.Step(microseconds(100));
  }
  CHECK(saturated.Ratio(20) == Approx(2.0).epsilon(0.20));
}

TEST_CASE("the share of a modality is divided evenly between its encoders") {
  SchedulerHouse house({}, 1, {{Modality::kText, 256, 256}, {Modality::kText, 256, 256}});
  std::array<Duration, 2> used{};
  LaneSimulator simulator(&house, [&](const Batch& batch) {
    const Duration time = microseconds(batch.encoder == 0 ? 20 : 200) * static_cast<int64_t>(batch.useful_units);
    used[batch.encoder] += time;
    return time;
  });
  for (int i = 0; i < 2000; ++i) {
    house.Push({.units = 16, .encoder = 0});
    if (i % 10 == 0) house.Push({.units = 16, .encoder = 1});
  }
  for (int i = 0; i < 4000; ++i) simulator.Step(microseconds(200));
  CHECK(ToSeconds(used[0]) / ToSeconds(used[1]) == Approx(1.0).epsilon(0.15));
}

TEST_CASE("an encoder whose batches all fail at once does not take the others' turns") {
  for (const bool trained : {true, false}) {
    // Of another modality, or of the same one.
    for (const Modality failing : {Modality::kImage, Modality::kText}) {
      CAPTURE(trained, static_cast<int>(failing));
      SchedulerHouse house({}, 1, {{Modality::kText, 64, 4}, {failing, 64, 4}});
      house.Train(milliseconds(2), microseconds(100));
      if (trained) house.Train(milliseconds(2), microseconds(100), 1, failing);
      size_t texts = 0;
      for (int i = 0; i < 400; ++i) {
        house.Push({});
        house.Push({.units = 1, .modality = failing, .encoder = 1});
      }
      house.Turn();
      for (int i = 0; i < 100; ++i) {
        if (house.puppet.held()[0].encoder == 0) {
          texts += house.Finish(milliseconds(6)).items.size();
        } else {
          house.Finish(Duration::zero(), 0, absl::InternalError("device fault"));
        }
      }
      CHECK(texts > 80);
    }
  }
}

}  // namespace
}  // namespace tributary
