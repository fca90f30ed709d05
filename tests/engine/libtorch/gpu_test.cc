// What only a GPU can show: the CUDA device's order and errors, and FP16 vectors against fp32 on the CPU through the
// whole engine. Built by the preset cuda; without a GPU every case says so and ends, and ctest counts the program as
// skipped.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/libtorch/device/cuda_device.h"
#include "engine/libtorch/engine_factory.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/engine/libtorch/text_goldens.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

bool NoGpu() {
  if (CudaDeviceCount() > 0) return false;
  std::cout << "skipped: no GPU\n";  // tests/engine/libtorch/CMakeLists.txt looks for these words
  return true;
}

struct Reached {
  absl::Status status;
  TimePoint at;
};

// Records an event and waits for it on the test's thread.
Reached WaitForEvent(DeviceStream& stream) {
  std::promise<Reached> promise;
  auto reached = promise.get_future();
  REQUIRE(stream.Record([&](absl::Status status, TimePoint at) { promise.set_value({std::move(status), at}); }).ok());
  return reached.get();
}

TEST_CASE("Bytes copied to the GPU and back are the same, and events come in order with rising times", "[gpu]") {
  if (NoGpu()) return;
  SteadyClock clock;
  auto device = CreateCudaDevice(0, &clock);
  REQUIRE(device.ok());
  CHECK((*device)->Name() == "cuda:0");
  CHECK_FALSE((*device)->SharesHostMemory());
  constexpr size_t kBytes = size_t{1} << 20;
  auto pinned_in = (*device)->AllocatePinned(kBytes);
  auto pinned_out = (*device)->AllocatePinned(kBytes);
  auto memory = (*device)->AllocateDevice(kBytes);
  REQUIRE((pinned_in.ok() && pinned_out.ok() && memory.ok()));
  std::byte* const in = pinned_in->data.get();
  std::byte* const out = pinned_out->data.get();
  for (size_t i = 0; i < kBytes; ++i) in[i] = static_cast<std::byte>(i * 31 % 251);
  auto stream = (*device)->CreateStream(0);
  REQUIRE(stream.ok());

  const TimePoint before = clock.Now();
  const Reached start = WaitForEvent(**stream);
  REQUIRE((*stream)->CopyIn(memory->data.get(), in, kBytes).ok());
  bool launched = false;
  REQUIRE((*stream)
              ->Launch([&] {
                launched = true;
                return absl::OkStatus();
              })
              .ok());
  REQUIRE((*stream)->CopyOut(out, memory->data.get(), kBytes).ok());
  const Reached end = WaitForEvent(**stream);

  CHECK(launched);
  CHECK((start.status.ok() && end.status.ok()));
  CHECK(before <= end.at);
  CHECK(start.at <= end.at);
  CHECK(end.at <= clock.Now());
  CHECK(std::memcmp(in, out, kBytes) == 0);
}

TEST_CASE("A stream of the second GPU copies and records there, whatever the calling thread's current GPU is",
          "[gpu]") {
  if (NoGpu()) return;
  if (CudaDeviceCount() < 2) {
    std::cout << "not run: it needs a second GPU\n";
    return;
  }
  SteadyClock clock;
  auto device = CreateCudaDevice(1, &clock);
  REQUIRE(device.ok());
  auto pinned_in = (*device)->AllocatePinned(4);
  auto pinned_out = (*device)->AllocatePinned(4);
  auto memory = (*device)->AllocateDevice(4);
  auto stream = (*device)->CreateStream(0);
  REQUIRE((pinned_in.ok() && pinned_out.ok() && memory.ok() && stream.ok()));
  std::memcpy(pinned_in->data.get(), "abc", 4);

  // This thread's current GPU is the first one, as a lane's is.
  CHECK((*stream)->CopyIn(memory->data.get(), pinned_in->data.get(), 4).ok());
  CHECK(WaitForEvent(**stream).status.ok());
  CHECK((*stream)->CopyOut(pinned_out->data.get(), memory->data.get(), 4).ok());
  CHECK(WaitForEvent(**stream).status.ok());
  CHECK(std::memcmp(pinned_out->data.get(), "abc", 4) == 0);
}

TEST_CASE("An exception of launched work is the status of the next event and of no later one", "[gpu]") {
  if (NoGpu()) return;
  SteadyClock clock;
  auto device = CreateCudaDevice(0, &clock);
  REQUIRE(device.ok());
  auto stream = (*device)->CreateStream(0);
  REQUIRE(stream.ok());

  CHECK_FALSE((*stream)->Launch([]() -> absl::Status { throw std::runtime_error("kernel trouble"); }).ok());

  const Reached first = WaitForEvent(**stream);
  CHECK(first.status.code() == absl::StatusCode::kInternal);
  CHECK(std::string(first.status.message()).find("kernel trouble") != std::string::npos);
  CHECK(WaitForEvent(**stream).status.ok());
}

TEST_CASE("A stream that is destroyed runs the callbacks of all its events first", "[gpu]") {
  if (NoGpu()) return;
  SteadyClock clock;
  auto device = CreateCudaDevice(0, &clock);
  REQUIRE(device.ok());
  auto stream = (*device)->CreateStream(0);
  REQUIRE(stream.ok());
  std::atomic<int> fired{0};
  for (int i = 0; i < 100; ++i) {
    REQUIRE((*stream)->Record([&](absl::Status, TimePoint) { fired.fetch_add(1); }).ok());
  }
  stream->reset();
  CHECK(fired.load() == 100);
}

TEST_CASE("A GPU that is not there is UNAVAILABLE and names how many there are", "[gpu]") {
  SteadyClock clock;
  const auto device = CreateCudaDevice(1000, &clock);
  CHECK(device.status().code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(device.status().message()).find("cuda:1000") != std::string::npos);
  NoGpu();
}

EngineOptions DefaultModel(const std::string& device, const std::string& dtype, const std::string& cache_folder) {
  EngineOptions options;
  options.lanes.device = device;
  options.cache_folder = cache_folder;
  ModelOptions model;
  model.name = "minilm";
  model.text.folder = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";
  model.text.dtype = dtype;
  model.image.folder = TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0";
  model.image.dtype = dtype;
  model.image.labels = TRIBUTARY_SOURCE_DIR "/config/imagenet-1k-labels.txt";
  options.models.push_back(model);
  return options;
}

EmbedResponse Call(Engine& engine, EmbedRequest request) {
  std::promise<EmbedResponse> done;
  auto answer = done.get_future();
  const auto status = engine.Submit(std::move(request), [&](EmbedResponse r) { done.set_value(std::move(r)); });
  REQUIRE(status.ok());
  return answer.get();
}

TEST_CASE("Text, image and fused vectors in FP16 on the GPU equal those in fp32 on the CPU to 0.999", "[gpu]") {
  if (NoGpu()) return;
  const TemporaryFolder cache;
  SteadyClock clock;
  Observer observer;
  auto cpu = CreateLibtorchEngine(DefaultModel("cpu", "fp32", cache.path()), &clock, &observer);
  auto gpu = CreateLibtorchEngine(DefaultModel("cuda:0", "fp16", cache.path()), &clock, &observer);
  CAPTURE(std::string(gpu.status().message()));
  REQUIRE((cpu.ok() && gpu.ok()));
  CHECK((*gpu)->Models()[0].compute_type == "fp16");

  const auto goldens = LoadTextGoldens();
  std::vector<std::string> pixels;
  for (size_t i = 0; i < 16; ++i) {
    std::string& field = pixels.emplace_back(size_t{64} * 64 * 3, '\0');
    for (size_t p = 0; p < field.size(); ++p) field[p] = static_cast<char>(p * (i + 1) / 7 % 256);
  }
  const auto request = [&] {
    EmbedRequest pairs;
    pairs.kind = RequestKind::kPair;
    for (size_t i = 0; i < goldens.size(); ++i) {
      const ImageInput::RawRgb raw{.bytes = pixels[i % pixels.size()], .width = 64, .height = 64};
      pairs.inputs.push_back({.text = TextInput{.text = goldens[i].text, .token_ids = {}},
                              .image = ImageInput{.encoded = {}, .raw_rgb = raw}});
    }
    return pairs;
  };
  const auto on_cpu = Call(**cpu, request()).results;
  const auto on_gpu = Call(**gpu, request()).results;

  REQUIRE(on_cpu.size() == on_gpu.size());
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    CAPTURE(goldens[i].name);
    REQUIRE((on_cpu[i].status.ok() && on_gpu[i].status.ok()));
    CHECK(Cosine(on_cpu[i].text, on_gpu[i].text) >= 0.999);
    CHECK(Cosine(on_cpu[i].image, on_gpu[i].image) >= 0.999);
    CHECK(Cosine(on_cpu[i].fused, on_gpu[i].fused) >= 0.999);
  }
}

}  // namespace
}  // namespace tributary
