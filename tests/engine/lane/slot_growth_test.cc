// Staging slots that grow while the lanes run.
#include "engine/lane/lane_set.h"
#include "tests/engine/lane/lane_test_support.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"

namespace tributary {
namespace {

constexpr size_t kOperationsOfBatch = 6;

FakeModelOptions Small() {
  FakeModelOptions options;
  options.max_batch_units[0] = 8;
  options.info.max_tokens = 8;
  options.max_batch_items = 2;
  return options;
}

// One lane over a device that is stepped by hand, with room for the small program only.
struct Fixture {
  Fixture() {
    lanes = *MakeLanes(&device, small, 1, 2, &clock, &observer);
    lanes->SetListener(&listener);
  }
  absl::Status Grow() {
    std::vector<SlotSize> sizes(1);
    sizes[0].CoverProgram(large);
    return lanes->Reserve(sizes);
  }

  std::shared_ptr<FakeControl> control = std::make_shared<FakeControl>();
  ServedModel small_model = MakeFakeModel(Small(), control);
  ServedModel large_model = MakeFakeModel({}, control);
  const BatchProgram& small = *small_model.replicas[0][0].program;
  const BatchProgram& large = *large_model.replicas[0][0].program;
  SteadyClock clock;
  FakeDevice device{&clock};
  RecordingObserver observer;
  RecordingListener listener;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::unique_ptr<LaneSet> lanes;
};

const std::string kLong(60, 'x');

TEST_CASE("A batch that is too large for its slot fails, and after growth it fits") {
  Fixture f;
  f.lanes->Execute(0, MakeTextBatch(f.large, f.sink, {kLong}, 0, 1));
  f.listener.WaitFor(1);
  CHECK(f.sink->At(0).status.code() == absl::StatusCode::kInternal);
  REQUIRE(f.Grow().ok());
  f.lanes->Execute(0, MakeTextBatch(f.large, f.sink, {kLong}, 1, 2));
  f.device.WaitUntilEnqueued(kOperationsOfBatch);
  f.device.StepAll();
  CHECK(f.sink->At(1).embedding == FakeTextVector(kLong, 8));
}

TEST_CASE("Slots grow while both carry batches, whose staging memory is left alone") {
  Fixture f;
  f.lanes->Execute(0, MakeTextBatch(f.small, f.sink, {"one"}, 0, 1));
  f.lanes->Execute(0, MakeTextBatch(f.small, f.sink, {"two"}, 1, 2));
  f.device.WaitUntilEnqueued(2 * kOperationsOfBatch);
  REQUIRE(f.Grow().ok());
  for (size_t i = 0; i < kOperationsOfBatch; ++i) f.device.Step();
  f.lanes->Execute(0, MakeTextBatch(f.large, f.sink, {kLong}, 2, 3));  // into the first slot; the second is in use
  f.device.WaitUntilEnqueued(3 * kOperationsOfBatch);
  f.device.StepAll();
  f.lanes->Execute(0, MakeTextBatch(f.large, f.sink, {kLong + "y"}, 3, 4));
  f.device.WaitUntilEnqueued(4 * kOperationsOfBatch);
  f.device.StepAll();
  CHECK(f.sink->At(0).embedding == FakeTextVector("one", 8));
  CHECK(f.sink->At(1).embedding == FakeTextVector("two", 8));
  CHECK(f.sink->At(2).embedding == FakeTextVector(kLong, 8));
  CHECK(f.sink->At(3).embedding == FakeTextVector(kLong + "y", 8));
  CHECK(f.device.Violations().empty());
}

TEST_CASE("Where the device has no memory to grow, nothing has changed, and it can be tried again") {
  Fixture f;
  f.device.RefuseAllocations(true);
  CHECK(f.Grow().code() == absl::StatusCode::kResourceExhausted);
  f.lanes->Execute(0, MakeTextBatch(f.small, f.sink, {"one"}, 0, 1));
  f.device.WaitUntilEnqueued(kOperationsOfBatch);
  f.device.StepAll();
  CHECK(f.sink->At(0).embedding == FakeTextVector("one", 8));
  f.device.RefuseAllocations(false);
  CHECK(f.Grow().ok());
  f.lanes->Execute(0, MakeTextBatch(f.large, f.sink, {kLong}, 1, 2));
  f.device.WaitUntilEnqueued(2 * kOperationsOfBatch);
  f.device.StepAll();
  CHECK(f.sink->At(1).embedding == FakeTextVector(kLong, 8));
}

TEST_CASE("Lanes that have room allocate nothing") {
  Fixture f;
  REQUIRE(f.Grow().ok());
  f.device.RefuseAllocations(true);
  CHECK(f.Grow().ok());
}

}  // namespace
}  // namespace tributary
