// What the pipeline tests share: an engine over the fake model, requests that own their bytes, answers to wait for.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/cancel_token.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"
#include "tests/support/fake_model.h"

namespace tributary {

// Counts everything. Thread-safety: all methods from any thread.
class CountingObserver final : public Observer {
 public:
  void OnAdmitted(RequestKind /*kind*/, size_t items, size_t /*bytes*/) override {
    std::lock_guard lock(mutex_);
    admitted_items += items;
  }
  void OnRejected(RequestKind /*kind*/, RejectReason reason) override {
    std::lock_guard lock(mutex_);
    ++rejected[reason];
  }
  void OnDropped(Modality /*modality*/, DropReason reason) override {
    std::lock_guard lock(mutex_);
    ++dropped[reason];
    changed_.notify_all();
  }
  void OnItem(const ItemEvent& event) override {
    std::lock_guard lock(mutex_);
    ++done[event.modality];
  }
  void OnBadVector(Modality modality) override {
    std::lock_guard lock(mutex_);
    ++bad_vectors[modality];
  }
  void OnRetried(Modality modality, bool good) override {
    std::lock_guard lock(mutex_);
    ++(good ? good_retries : bad_retries)[modality];
  }
  void WaitUntilDropped(DropReason reason) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return dropped[reason] > 0; });
  }
  size_t Dropped(DropReason reason) {
    std::lock_guard lock(mutex_);
    return dropped[reason];
  }
  size_t Items(Modality modality) {
    std::lock_guard lock(mutex_);
    return done[modality];
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t admitted_items = 0;
  std::map<RejectReason, size_t> rejected;
  std::map<DropReason, size_t> dropped;
  std::map<Modality, size_t> done;
  std::map<Modality, size_t> bad_vectors;
  std::map<Modality, size_t> good_retries;
  std::map<Modality, size_t> bad_retries;
};

// Texts and encoded images of a request; nullopt: that part is missing.
struct TestInput {
  std::optional<std::string> text;
  std::optional<std::string> image;
};

inline EmbedRequest MakeRequest(RequestKind kind, std::vector<TestInput> inputs) {
  auto owner = std::make_shared<const std::vector<TestInput>>(std::move(inputs));
  EmbedRequest request;
  request.kind = kind;
  for (const TestInput& input : *owner) {
    EmbedInput embed;
    if (input.text) embed.text = TextInput{*input.text, std::nullopt};
    if (input.image) embed.image = ImageInput{*input.image, std::nullopt};
    request.inputs.push_back(std::move(embed));
  }
  request.owner = owner;
  return request;
}
inline EmbedRequest TextRequest(const std::vector<std::string>& texts) {
  std::vector<TestInput> inputs;
  for (const std::string& text : texts) inputs.push_back({text, std::nullopt});
  return MakeRequest(RequestKind::kText, std::move(inputs));
}
inline EmbedRequest ImageRequest(const std::vector<std::string>& images) {
  std::vector<TestInput> inputs;
  for (const std::string& image : images) inputs.push_back({std::nullopt, image});
  return MakeRequest(RequestKind::kImage, std::move(inputs));
}

// The answer to one request. Thread-safety: all methods from any thread.
class Answer {
 public:
  Completion Callback() {
    return [this](EmbedResponse response) {
      std::lock_guard lock(mutex_);
      response_ = std::move(response);
      ++completions_;
      changed_.notify_all();
    };
  }
  const EmbedResponse& Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return completions_ > 0; });
    return response_;
  }
  size_t completions() const {
    std::lock_guard lock(mutex_);
    return completions_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EmbedResponse response_;
  size_t completions_ = 0;
};

// Submits and waits.
inline EmbedResponse EmbedWith(Engine& engine, EmbedRequest request) {
  Answer answer;
  const absl::Status submitted = engine.Submit(std::move(request), answer.Callback());
  REQUIRE(submitted.ok());
  return answer.Wait();
}

// Puts the engine to come on two fake devices with memories of their own, "fake:0" and "fake:1", one lane each. The
// engine owns them.
inline std::vector<FakeDevice*> UseTwoFakeDevices(PipelineParts& parts, Clock* clock) {
  std::vector<FakeDevice*> devices;
  parts.devices.clear();
  for (const char* name : {"fake:0", "fake:1"}) {
    auto device = std::make_unique<FakeDevice>(clock, FakeDevice::Steps::kOwnThread, name);
    devices.push_back(device.get());
    parts.devices.push_back({std::move(device), 1, 2});
  }
  return devices;
}

inline void CheckNear(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(1e-6));  // float rounding
}

struct EngineFixture {
  explicit EngineFixture(EngineOptions engine_options = {}, FakeModelOptions model = {}, size_t lanes = 1)
      : options(std::move(engine_options)), fakes(MakeFakePipelineParts(&clock, model, lanes)) {
    control = fakes.control;
    auto created = CreatePipeline(options, std::move(fakes.parts), &clock, &observer);
    REQUIRE(created.ok());
    engine = *std::move(created);
  }
  EmbedResponse Embed(EmbedRequest request) { return EmbedWith(*engine, std::move(request)); }

  SteadyClock clock;
  CountingObserver observer;
  EngineOptions options;
  FakeParts fakes;
  std::shared_ptr<FakeControl> control;
  std::unique_ptr<Engine> engine;
};

inline absl::StatusCode CodeOf(const EmbedResponse& response, size_t input) {
  return response.results.at(input).status.code();
}

}  // namespace tributary
