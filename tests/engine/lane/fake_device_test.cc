// The fake device finds what it is there to find; otherwise the lane tests would prove nothing.
#include "tests/support/fake_device.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

namespace tributary {
namespace {

struct Fixture {
  FakeClock clock;
  FakeDevice device{&clock};
  DeviceBuffer pinned = *device.AllocatePinned(64);
  DeviceBuffer memory = *device.AllocateDevice(64);
  std::unique_ptr<DeviceStream> stream = *device.CreateStream(0);  // last: drains before its memory goes
};

const auto kIgnore = [](absl::Status, TimePoint) {};

TEST_CASE("Writing to a slot before the event after its copy in is found") {
  Fixture f;
  const size_t steps_before_writing = GENERATE(0, 1);  // before and after the copy itself
  REQUIRE(f.stream->CopyIn(f.memory.data.get(), f.pinned.data.get(), 64).ok());
  REQUIRE(f.stream->Record(kIgnore).ok());
  for (size_t i = 0; i < steps_before_writing; ++i) f.device.Step();

  f.pinned.data.get()[5] = std::byte{1};
  f.device.StepAll();

  CHECK_FALSE(f.device.Violations().empty());
}

TEST_CASE("Giving a slot to a second copy before the event of the first is found") {
  Fixture f;
  REQUIRE(f.stream->CopyIn(f.memory.data.get(), f.pinned.data.get(), 64).ok());
  REQUIRE(f.stream->CopyIn(f.memory.data.get(), f.pinned.data.get() + 32, 32).ok());
  CHECK(f.device.Violations().size() == 1);
}

TEST_CASE("A copied-out vector is poison until its event fires") {
  Fixture f;
  std::memset(f.memory.data.get(), 7, 64);
  REQUIRE(f.stream->CopyOut(f.pinned.data.get(), f.memory.data.get(), 64).ok());
  REQUIRE(f.stream->Record(kIgnore).ok());

  CHECK(f.pinned.data.get()[0] == std::byte{0xFF});
  f.device.Step();
  CHECK(f.pinned.data.get()[0] == std::byte{0xFF});
  f.device.Step();
  CHECK(f.pinned.data.get()[0] == std::byte{7});
  CHECK(f.device.Violations().empty());
}

}  // namespace
}  // namespace tributary
