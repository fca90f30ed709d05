// Models whose encoders are on several devices, with replicas, through the whole pipeline.
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "engine/base/vector_check.h"
#include "engine/lane/cpu_device.h"
#include "tests/engine/pipeline/pipeline_test_support.h"
#include "tests/support/fake_device.h"

namespace tributary {
namespace {

using std::chrono::hours;

using PlacedOn = std::array<std::vector<size_t>, kModalityCount>;  // devices of each modality

// An engine over fake devices with memories of their own, one lane each. (Their order of members is that of life.)
struct TwoDevices {
  explicit TwoDevices(PlacedOn placement, FakeModelOptions model = {}, EngineOptions engine_options = {})
      : options(std::move(engine_options)) {
    model.placement = std::move(placement);
    FakeParts fakes = MakeFakePipelineParts(&clock, model);
    control = fakes.control;
    info = model.info;
    devices = UseTwoFakeDevices(fakes.parts, &clock);
    auto created = CreatePipeline(options, std::move(fakes.parts), &clock, &observer);
    REQUIRE(created.ok());
    engine = *std::move(created);
  }
  EmbedResponse Embed(EmbedRequest request) { return EmbedWith(*engine, std::move(request)); }
  std::vector<std::string> Violations() const {
    std::vector<std::string> all = devices[0]->Violations();
    for (std::string& violation : devices[1]->Violations()) all.push_back(std::move(violation));
    return all;
  }

  SteadyClock clock;
  CountingObserver observer;
  EngineOptions options;
  std::shared_ptr<FakeControl> control;
  ModelInfo info;
  std::vector<FakeDevice*> devices;  // owned by the engine
  std::unique_ptr<Engine> engine;
};

std::vector<float> Normalised(std::vector<float> vector) {
  REQUIRE(CheckAndNormalise(vector, true).ok());
  return vector;
}

void CheckPair(const EmbedResult& result, const std::string& text, const std::string& image, const ModelInfo& info) {
  REQUIRE(result.status.ok());
  CHECK(result.text == Normalised(FakeTextVector(text, info.dimensions)));
  CHECK(result.image == Normalised(FakeImageVector(image, info)));
  std::vector<float> mean(info.dimensions);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = (result.text[i] + result.image[i]) / 2;
  CHECK(result.fused == Normalised(mean));
}

TEST_CASE("A pair with its text on one device, its image on another and fusion on either is right") {
  const size_t fusion = GENERATE(size_t{0}, size_t{1});
  TwoDevices f({{{0}, {1}, {fusion}}});
  const EmbedResponse response = f.Embed(MakeRequest(RequestKind::kPair, {{"a cat", "cat.jpg"}, {"a dog", "dog.jpg"}}));
  REQUIRE(response.results.size() == 2);
  CheckPair(response.results[0], "a cat", "cat.jpg", f.info);
  CheckPair(response.results[1], "a dog", "dog.jpg", f.info);
  CHECK(f.control->BegunOn(fusion) >= 2);
  CHECK(f.Violations().empty());
}

TEST_CASE("The parts of a pair run on their two devices at the same moment") {
  TwoDevices f({{{0}, {1}, {0}}});
  f.control->Hold();
  Answer answer;
  REQUIRE(f.engine->Submit(MakeRequest(RequestKind::kPair, {{"a cat", "cat.jpg"}}), answer.Callback()).ok());
  f.control->WaitUntilBegun(2);  // of which neither has ended
  CHECK(f.control->RunningOn(0) == 1);
  CHECK(f.control->RunningOn(1) == 1);
  f.control->Release();
  CheckPair(answer.Wait().results[0], "a cat", "cat.jpg", f.info);
  const EngineSnapshot snapshot = f.engine->Snapshot();
  REQUIRE(snapshot.lanes.size() == 2);
  CHECK(snapshot.lanes[0].device == "fake:0");
  CHECK(snapshot.lanes[1].device == "fake:1");
}

TEST_CASE("While one replica is busy the other one serves") {
  TwoDevices f({{{0, 1}, {0}, {0}}});
  f.control->Hold(0);
  Answer held;
  REQUIRE(f.engine->Submit(TextRequest({"held"}), held.Callback()).ok());
  f.control->WaitUntilBegun(1);  // on device 0: of two that nothing is known of the first is taken
  Answer second;
  REQUIRE(f.engine->Submit(TextRequest({"second"}), second.Callback()).ok());
  f.control->WaitUntilBegun(2);
  CHECK(f.control->BegunOn(0) == 1);
  CHECK(f.control->BegunOn(1) == 1);
  f.control->Release();
  CHECK(held.Wait().results[0].status.ok());
  CHECK(second.Wait().results[0].status.ok());
}

TEST_CASE("A device that fails fails its own batches only, and its replica goes on") {
  TwoDevices f({{{0, 1}, {1}, {1}}});
  f.control->FailDevice(0);
  size_t failed = 0;
  for (int i = 0; i < 200; ++i) {
    const EmbedResponse response = f.Embed(TextRequest({"text"}));
    const absl::Status& status = response.results[0].status;
    if (status.ok()) continue;
    CHECK(status.code() == absl::StatusCode::kInternal);
    ++failed;
  }
  CHECK(failed == f.control->BegunOn(0));
  CHECK(failed >= 1);
  CHECK(f.control->BegunOn(1) == 200 - failed);
  CHECK(f.Embed(ImageRequest({"cat.jpg"})).results[0].status.ok());
}

TEST_CASE("Text and images on two CPU devices are served side by side") {
  SteadyClock clock;
  Observer observer;
  FakeModelOptions model;
  model.placement = {{{0}, {1}, {0, 1}}};
  FakeParts fakes = MakeFakePipelineParts(&clock, model, 2);
  fakes.parts.devices.push_back({CreateCpuDevice({}, &clock), 1, 2});
  auto engine = *CreatePipeline({}, std::move(fakes.parts), &clock, &observer);
  CHECK(engine->Snapshot().lanes.size() == 3);
  for (int i = 0; i < 20; ++i) {
    const std::string text = "text " + std::to_string(i);
    Answer answer;
    REQUIRE(engine->Submit(MakeRequest(RequestKind::kPair, {{text, "cat.jpg"}}), answer.Callback()).ok());
    CheckPair(answer.Wait().results[0], text, "cat.jpg", model.info);
  }
}

TEST_CASE("A replica on a device that is not there is refused by its number") {
  SteadyClock clock;
  Observer observer;
  FakeModelOptions model;
  model.placement[0] = {0, 1};
  const absl::Status status =
      CreatePipeline({}, MakeFakePipelineParts(&clock, model).parts, &clock, &observer).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.message() == "model 'fake': text is placed on device 1 of 1");
}

TEST_CASE("Under random requests over two devices everything completes once, right, and all permits return") {
  const unsigned seed = GENERATE(1u, 2u, 3u);
  CAPTURE(seed);
  constexpr size_t kThreads = 3;
  constexpr int kPerThread = 150;
  std::mt19937 draw(seed);
  PlacedOn placement;
  const std::vector<std::vector<size_t>> kPlaces = {{0}, {1}, {0, 1}};
  for (auto& devices : placement) devices = kPlaces[draw() % 3];
  EngineOptions options;
  options.prepare.threads = 2;
  TwoDevices f(placement, {}, options);

  std::atomic<int> accepted{0};
  std::atomic<int> completed{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed * 100 + static_cast<unsigned>(t));
      for (int i = 0; i < kPerThread; ++i) {
        const std::string text(1 + random() % 60, static_cast<char>('a' + random() % 26));
        const auto kind = static_cast<RequestKind>(random() % 3);
        TestInput input;
        if (kind != RequestKind::kImage) input.text = text;
        if (kind != RequestKind::kText) input.image = text;
        EmbedRequest request = MakeRequest(kind, {input});
        request.cancel = std::make_shared<CancelToken>();
        const auto cancel = random() % 8 == 0 ? request.cancel : nullptr;
        request.options.normalise = false;
        const absl::Status status = f.engine->Submit(std::move(request), [&, text, kind](EmbedResponse response) {
          ++completed;
          const EmbedResult& result = response.results.at(0);
          if (result.status.code() == absl::StatusCode::kCancelled) return;
          const bool good = result.status.ok() &&
                            (kind == RequestKind::kImage || result.text == FakeTextVector(text, f.info.dimensions)) &&
                            (kind == RequestKind::kText || result.image == FakeImageVector(text, f.info));
          if (!good) ++wrong;
        });
        if (status.ok()) ++accepted;
        if (cancel) cancel->Cancel();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  f.engine->StopAdmitting();
  REQUIRE(f.engine->WaitUntilIdle(hours(1)));
  CHECK(accepted > 0);
  CHECK(completed == accepted);
  CHECK(wrong == 0);
  CHECK(f.engine->Snapshot().items_in_flight == 0);
  CHECK(f.Violations().empty());
}

}  // namespace
}  // namespace tributary
