// The CPU device: order, errors, drain, threads; and lanes on it.
#include "engine/lane/cpu_device.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "engine/lane/lane_set.h"
#include "tests/engine/lane/lane_test_support.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// Waits for an event and gives its status.
absl::Status EventStatus(DeviceStream& stream) {
  std::promise<absl::Status> status;
  std::future<absl::Status> result = status.get_future();
  REQUIRE(stream.Record([&status](absl::Status s, TimePoint) { status.set_value(std::move(s)); }).ok());
  return result.get();
}

TEST_CASE("Work and events of a CPU stream run in order on its own thread") {
  SteadyClock clock;
  auto device = CreateCpuDevice({}, &clock);
  auto stream = *device->CreateStream(0);
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 50; ++i) {
    REQUIRE(stream
                ->Launch([&order, i] {
                  order.push_back(2 * i);
                  return absl::OkStatus();
                })
                .ok());
    REQUIRE(stream
                ->Record([&order, &thread, i](absl::Status, TimePoint) {
                  order.push_back(2 * i + 1);
                  thread = std::this_thread::get_id();
                })
                .ok());
  }
  CHECK(EventStatus(*stream).ok());

  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[i] == i);
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("An error or exception of work becomes the status of the next event and of no later one") {
  SteadyClock clock;
  auto device = CreateCpuDevice({}, &clock);
  auto stream = *device->CreateStream(0);

  REQUIRE(stream->Launch([]() -> absl::Status { throw std::runtime_error("broken kernel"); }).ok());
  REQUIRE(stream->Launch([] { return absl::UnavailableError("later, so not the one reported"); }).ok());
  const absl::Status failed = EventStatus(*stream);
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(std::string(failed.message()).find("broken kernel") != std::string::npos);
  CHECK(EventStatus(*stream).ok());
}

TEST_CASE("A CPU stream never makes its caller wait, holds a bounded number of entries, and drains when destroyed") {
  SteadyClock clock;
  auto device = CreateCpuDevice({}, &clock);
  auto stream = *device->CreateStream(0);
  std::promise<void> gate;
  std::promise<void> begun;
  REQUIRE(stream
              ->Launch([&] {
                begun.set_value();
                gate.get_future().wait();
                return absl::OkStatus();
              })
              .ok());
  begun.get_future().wait();
  size_t accepted = 0;
  std::atomic<size_t> fired{0};
  while (stream->Record([&fired](absl::Status, TimePoint) { ++fired; }).ok()) ++accepted;
  CHECK(accepted >= 64);
  CHECK(accepted <= 4096);
  CHECK(fired == 0);

  gate.set_value();
  stream.reset();
  CHECK(fired == accepted);
}

TEST_CASE("Copies between different memories are made, and none where both are the same") {
  SteadyClock clock;
  auto device = CreateCpuDevice({}, &clock);
  CHECK(device->SharesHostMemory());
  auto stream = *device->CreateStream(0);
  DeviceBuffer from = *device->AllocatePinned(100);
  DeviceBuffer to = *device->AllocateDevice(100);
  CHECK(reinterpret_cast<uintptr_t>(from.data.get()) % 64 == 0);
  std::fill_n(from.data.get(), 100, std::byte{42});
  std::fill_n(to.data.get(), 100, std::byte{0});

  REQUIRE(stream->CopyIn(to.data.get(), from.data.get(), 100).ok());
  REQUIRE(stream->CopyOut(from.data.get(), from.data.get(), 100).ok());
  CHECK(EventStatus(*stream).ok());
  CHECK(to.data.get()[99] == std::byte{42});
}

TEST_CASE("Every stream thread has its name, its CPU and its init hook") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  SteadyClock clock;
  std::vector<std::pair<size_t, std::thread::id>> hooked;
  auto device = CreateCpuDevice(
      {.affinity = {cpus.back()},
       .thread_init = [&hooked](size_t lane) { hooked.emplace_back(lane, std::this_thread::get_id()); }},
      &clock);
  auto stream = *device->CreateStream(3);
  std::string name(16, '\0');
  cpu_set_t pinned;
  std::thread::id thread;
  REQUIRE(stream
              ->Launch([&] {
                pthread_getname_np(pthread_self(), name.data(), name.size());
                sched_getaffinity(0, sizeof(pinned), &pinned);
                thread = std::this_thread::get_id();
                return absl::OkStatus();
              })
              .ok());
  CHECK(EventStatus(*stream).ok());

  CHECK(std::string(name.c_str()) == "trib-cpu-3");
  CHECK(CPU_COUNT(&pinned) == 1);
  CHECK(CPU_ISSET(cpus.back(), &pinned));
  REQUIRE(hooked.size() == 1);
  CHECK(hooked[0].first == 3);
  CHECK(hooked[0].second == thread);
}

TEST_CASE("A stream for a CPU that is not there is refused with the CPU's number") {
  SteadyClock clock;
  auto device = CreateCpuDevice({.affinity = {100000}, .thread_init = {}}, &clock);
  const auto stream = device->CreateStream(0);
  CHECK(stream.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(stream.status().message()).find("100000") != std::string::npos);
}

// A program that spins and measures the CPU time its thread spends.
class SpinningProgram final : public BatchProgram {
 public:
  uint32_t OutputDimension() const override { return 1; }
  uint64_t MaxBatchUnits() const override { return 1000; }
  size_t MaxBatchItems() const override { return 16; }
  size_t MaxInputBytes() const override { return 64; }
  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte>) const override {
    StagedBatch staged;
    staged.batch_size = batch.items.size();
    return staged;
  }
  absl::Status Run(const StagedBatch& staged, const std::byte*, std::byte* output) const override {
    const double begin = CpuSeconds();
    while (CpuSeconds() < begin + 0.005) continue;
    for (size_t i = 0; i < staged.batch_size; ++i) reinterpret_cast<float*>(output)[i] = 1;
    cpu_seconds_ += CpuSeconds() - begin;
    return absl::OkStatus();
  }
  double cpu_seconds() const { return cpu_seconds_; }

 private:
  static double CpuSeconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  mutable std::atomic<double> cpu_seconds_{0};
};

TEST_CASE("Busy seconds of a CPU lane hold the CPU time its thread spent, and no more than the time that passed") {
  SteadyClock clock;
  const TimePoint begin = clock.Now();
  SpinningProgram program;
  Observer observer;
  RecordingListener listener;
  auto sink = std::make_shared<RecordingSink>();
  auto device = CreateCpuDevice({}, &clock);
  auto lanes = *MakeLanes(device.get(), program, 1, 2, &clock, &observer);
  lanes->SetListener(&listener);
  for (uint32_t i = 0; i < 20; ++i) {
    if (lanes->FreeSlots(0) == 0) listener.WaitFor(i - 1);
    lanes->Execute(0, MakeTextBatch(program, sink, {"x"}, i, i + 1));
  }
  listener.WaitFor(20);

  // The thread may be preempted while it runs, so the wall time between the events can only be longer.
  const double busy = ToSeconds(lanes->Snapshot(IdleCause::kNoWork, clock.Now())[0].busy[0]);
  CHECK(busy >= program.cpu_seconds());
  CHECK(busy >= 20 * 0.005);
  CHECK(busy <= ToSeconds(clock.Now() - begin));
}

TEST_CASE("Every vector of a CPU lane is right while the next batch is being staged") {
  SteadyClock clock;
  auto control = std::make_shared<FakeControl>();
  ServedModel model = MakeFakeModel({}, control);
  const BatchProgram& program = *model.replicas[0][0].program;
  Observer observer;
  RecordingListener listener;
  auto sink = std::make_shared<RecordingSink>();
  auto device = CreateCpuDevice({}, &clock);
  auto lanes = *MakeLanes(device.get(), program, 1, 2, &clock, &observer);
  lanes->SetListener(&listener);

  control->Hold();
  lanes->Execute(0, MakeTextBatch(program, sink, {"running"}, 0, 1));
  control->WaitUntilBegun(1);
  CHECK(lanes->FreeSlots(0) == 1);
  lanes->Execute(0, MakeTextBatch(program, sink, {"staged"}, 1, 2));
  CHECK(lanes->FreeSlots(0) == 0);
  control->Release();
  listener.WaitFor(2);

  CHECK(sink->At(0).embedding == FakeTextVector("running", 8));
  CHECK(sink->At(1).embedding == FakeTextVector("staged", 8));
}

}  // namespace
}  // namespace tributary
