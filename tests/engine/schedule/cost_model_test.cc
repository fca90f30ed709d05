#include "engine/schedule/cost_model.h"

#include <chrono>
#include <random>

#include "engine/schedule/length_buckets.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Duration Cost(uint64_t units, double factor = 1) {
  return FromSeconds(factor * (2e-3 + 50e-6 * static_cast<double>(units)));
}

void Train(CostModel& model, double factor = 1, int batches = 30) {
  for (int i = 0; i < batches; ++i) {
    const uint64_t units = 10 + 97 * static_cast<uint64_t>(i) % 500;
    model.Observe(units, Cost(units, factor));
  }
}

void CheckPredictions(const CostModel& model, double factor, double tolerance) {
  for (const uint64_t units : {1, 10, 100, 400}) {
    CAPTURE(units);
    CHECK(ToSeconds(model.Predict(units)) == Approx(ToSeconds(Cost(units, factor))).epsilon(tolerance));
  }
}

TEST_CASE("a fresh cost model predicts nothing and is not trained; eight batches train it") {
  CostModel model;
  CHECK(model.Predict(100) == Duration::zero());
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(model.trained());
    model.Observe(100, milliseconds(5));
  }
  CHECK(model.trained());
}

TEST_CASE("the fixed part and the part per unit are told apart") {
  CostModel model;
  Train(model);
  CheckPredictions(model, 1, 0.01);
}

TEST_CASE("batches of one size are taken as all per unit, so that smaller ones are not thought too dear") {
  CostModel model;
  for (int i = 0; i < 20; ++i) model.Observe(100, milliseconds(10));
  CHECK(ToSeconds(model.Predict(100)) == Approx(0.010));
  CHECK(ToSeconds(model.Predict(10)) == Approx(0.001));
  CHECK(ToSeconds(model.Predict(1000)) == Approx(0.100));
}

TEST_CASE("the least a batch may take leaves open what batches of one size did not tell, and nothing else") {
  CostModel model;
  for (int i = 0; i < 20; ++i) model.Observe(100, milliseconds(10));
  CHECK(ToSeconds(model.PredictAtLeast(10)) == Approx(0.001));
  CHECK(ToSeconds(model.PredictAtLeast(100)) == Approx(0.010));
  CHECK(ToSeconds(model.PredictAtLeast(1000)) == Approx(0.010));
  Train(model);
  for (const uint64_t units : {1, 100, 1000}) CHECK(model.PredictAtLeast(units) == model.Predict(units));
}

TEST_CASE("after costs change tenfold predictions are within 10 % from the fourth batch on") {
  for (const double factor : {10.0, 0.1}) {
    CAPTURE(factor);
    CostModel model;
    Train(model);
    Train(model, factor, 3);
    CheckPredictions(model, factor, 0.10);
    Train(model, factor, 20);
    CheckPredictions(model, factor, 0.05);
  }
}

TEST_CASE("single outliers hardly move the model, however wild") {
  CostModel model;
  Train(model);
  for (int i = 0; i < 10; ++i) {
    model.Observe(200, seconds(30));
    Train(model, 1, 15);
  }
  CheckPredictions(model, 1, 0.25);
}

TEST_CASE("a first batch that is slow from warming up does not spoil the model") {
  CostModel model;
  model.Observe(100, seconds(2));
  Train(model, 1, 60);
  CheckPredictions(model, 1, 0.10);
}

TEST_CASE("noise of 15 % leaves predictions within 10 %") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> noise(0.85, 1.15);
  CostModel model;
  for (int i = 0; i < 400; ++i) {
    const uint64_t units = 1 + random() % 512;
    model.Observe(units, Cost(units, noise(random)));
  }
  for (const uint64_t units : {100, 400}) {
    CHECK(ToSeconds(model.Predict(units)) == Approx(ToSeconds(Cost(units))).epsilon(0.10));
  }
}

TEST_CASE("costs never become negative, whatever the batches say") {
  CostModel falling;  // larger batches were faster
  for (int i = 0; i < 20; ++i) {
    const uint64_t units = i % 2 == 0 ? 10 : 100;
    falling.Observe(units, units == 10 ? milliseconds(10) : milliseconds(6));
  }
  CHECK(falling.Predict(1000) > Duration::zero());
  CostModel steep;  // larger batches cost more than in proportion
  for (int i = 0; i < 20; ++i) {
    const uint64_t units = i % 2 == 0 ? 10 : 100;
    steep.Observe(units, units == 10 ? microseconds(600) : milliseconds(10));
  }
  CHECK(steep.Predict(1) > Duration::zero());
  steep.Observe(10, Duration::zero());
  CHECK(steep.Predict(1) > Duration::zero());
}

TEST_CASE("padding counts: a batch costs what it is padded to") {
  CostModel model(&RoundedTokenTotal);
  for (int i = 0; i < 30; ++i) {
    const uint64_t units = 10 + 97 * static_cast<uint64_t>(i) % 500;
    model.Observe(units, Cost(RoundedTokenTotal(units)));
  }
  CHECK(model.Predict(130) == model.Predict(256));
  CHECK(ToSeconds(model.Predict(130)) == Approx(ToSeconds(Cost(256))).epsilon(0.01));
  CHECK(ToSeconds(model.PredictUnpadded(130)) == Approx(ToSeconds(Cost(130))).epsilon(0.01));
}

}  // namespace
}  // namespace tributary
