// A scripted engine for tests of the server: answers at once or holds what it accepted until told, and remembers it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/api/cancel_token.h"
#include "engine/api/engine.h"
#include "tests/support/thread_name.h"

namespace tributary {

// Vectors are {bytes of the input, 1, 2, ...}; an input of the text or the encoded bytes "broken" is an
// INVALID_ARGUMENT. Its models list the size 2 and the prompts "document" and "query". Completions run on its own
// thread, in the order of release. The destructor releases what is held. Thread-safety: all methods from any thread.
class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(uint32_t dimensions = 4) : dimensions_(dimensions), thread_([this] { Complete(); }) {}
  ~FakeEngine() override {
    Release();
    ReleaseOperations();
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // From now on accepted requests wait for Release().
  void Hold() {
    Set([this] { held_ = true; });
  }
  void Release() {
    Set([this] { held_ = false; });
  }
  // Lets only the oldest held request go.
  void ReleaseOne() {
    Set([this] { ++released_; });
  }
  // What Submit answers from now on; OK: it accepts.
  void RefuseWith(absl::Status status) {
    Set([&] { refusal_ = std::move(status); });
  }
  // What every input's result is from now on.
  void FailInputsWith(absl::Status status) {
    Set([&] { input_status_ = std::move(status); });
  }
  // Every vector from now on, in place of those made of the inputs' sizes.
  void EmbedAs(std::vector<float> vector) {
    Set([&] { vector_ = std::move(vector); });
  }
  void SetSnapshot(EngineSnapshot snapshot) {
    Set([&] { snapshot_ = std::move(snapshot); });
  }

  // From now on loads and unloads wait until ReleaseOperations().
  void HoldOperations() {
    Set([this] { operations_held_ = true; });
  }
  void ReleaseOperations() {
    Set([this] { operations_held_ = false; });
  }
  // What LoadModel and UnloadModel answer from now on; OK: they do as they are told.
  void RefuseOperationsWith(absl::Status status) {
    Set([&] { operation_refusal_ = std::move(status); });
  }
  void WaitUntilOperationsBegun(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return operation_threads_.size() >= count; });
  }
  // The threads that called LoadModel and UnloadModel, in order.
  std::vector<std::string> operation_threads() const {
    std::lock_guard lock(mutex_);
    return operation_threads_;
  }
  ModelOptions last_model_options() const {
    std::lock_guard lock(mutex_);
    return last_model_options_;
  }
  Duration last_unload_timeout() const {
    std::lock_guard lock(mutex_);
    return last_unload_timeout_;
  }

  void WaitUntilSubmitted(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return submitted_ >= count; });
  }
  size_t submitted() const {
    std::lock_guard lock(mutex_);
    return submitted_;
  }
  // Of the latest request.
  EmbedOptions last_options() const {
    std::lock_guard lock(mutex_);
    return last_options_;
  }
  std::shared_ptr<CancelToken> last_cancel() const {
    std::lock_guard lock(mutex_);
    return last_cancel_;
  }
  bool draining() const {
    std::lock_guard lock(mutex_);
    return draining_;
  }

  absl::Status Submit(EmbedRequest request, Completion done) override {
    std::lock_guard lock(mutex_);
    if (draining_) return absl::UnavailableError("draining");
    if (!refusal_.ok()) return refusal_;
    ++submitted_;
    last_options_ = request.options;
    last_cancel_ = request.cancel;
    waiting_.push_back({std::move(request), std::move(done)});
    changed_.notify_all();
    return absl::OkStatus();
  }
  std::vector<ModelInfo> Models() const override {
    std::lock_guard lock(mutex_);
    return models_;
  }
  // The model has as many dimensions as its first Matryoshka size says, without one those of the engine.
  absl::StatusOr<ModelInfo> LoadModel(const ModelOptions& options) override {
    std::unique_lock lock(mutex_);
    last_model_options_ = options;
    if (absl::Status status = BeginOperation(lock); !status.ok()) return status;
    ModelInfo info = Describe(options.name);
    info.revision = "loaded";
    if (!options.matryoshka_dimensions.empty()) {
      info.dimensions = static_cast<uint32_t>(options.matryoshka_dimensions.front());
    }
    const auto found = Find(options.name);
    if (found == models_.end()) {
      models_.push_back(info);
    } else {
      info.is_default = found->is_default;
      *found = info;
    }
    return info;
  }
  absl::Status UnloadModel(const std::string& name, Duration timeout,
                           const std::function<void()>& on_removed) override {
    std::unique_lock lock(mutex_);
    last_unload_timeout_ = timeout;
    if (absl::Status status = BeginOperation(lock); !status.ok()) return status;
    const auto found = Find(name);
    if (found == models_.end()) return absl::NotFoundError("no model '" + name + "' is served");
    if (found->is_default) return absl::FailedPreconditionError("model '" + name + "' is the default model");
    models_.erase(found);
    lock.unlock();
    if (on_removed) on_removed();
    return absl::OkStatus();
  }
  EngineSnapshot Snapshot() const override {
    std::lock_guard lock(mutex_);
    return snapshot_;
  }
  void StopAdmitting() override {
    Set([this] { draining_ = true; });
  }
  bool WaitUntilIdle(Duration timeout) override {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return waiting_.empty() && !completing_; });
  }

 private:
  struct Accepted {
    EmbedRequest request;
    Completion done;
  };

  // Called with the lock; waits while operations are held.
  absl::Status BeginOperation(std::unique_lock<std::mutex>& lock) {
    operation_threads_.push_back(CurrentThreadName());
    changed_.notify_all();
    changed_.wait(lock, [this] { return !operations_held_; });
    return operation_refusal_;
  }
  std::vector<ModelInfo>::iterator Find(const std::string& name) {
    return std::find_if(models_.begin(), models_.end(), [&](const ModelInfo& model) { return model.name == name; });
  }
  ModelInfo Describe(const std::string& name) const {
    ModelInfo info{.name = name,
                   .revision = "f0",
                   .is_default = name == "fake",
                   .text = true,
                   .image = true,
                   .pair = true,
                   .dimensions = dimensions_,
                   .max_tokens = 16,
                   .vocabulary_size = 100,
                   .image_width = 8,
                   .image_height = 9,
                   .normalised_by_default = true,
                   .fusion = "weighted_mean",
                   .compute_type = "fp32",
                   .image_compute_type = "bf16",
                   .parameter_count = 10,
                   .parameter_bytes = 40,
                   .matryoshka_dimensions = {2},
                   .prompt_names = {"document", "query"},
                   .default_prompt = "document"};
    if (name == "second") info.self_check = SelfCheckResult{.lowest_cosine = 0.98, .passed = false};
    return info;
  }

  template <typename Change>
  void Set(Change change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  void Complete() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || (!waiting_.empty() && (!held_ || released_ > 0)); });
      if (waiting_.empty()) return;
      if (held_) --released_;
      Accepted accepted = std::move(waiting_.front());
      waiting_.pop_front();
      completing_ = true;
      EmbedResponse response = Answer(accepted.request);
      lock.unlock();
      std::move(accepted.done)(std::move(response));
      accepted.request = {};
      lock.lock();
      completing_ = false;
      changed_.notify_all();
    }
  }

  std::vector<float> Vector(size_t bytes) const {
    if (!vector_.empty()) return vector_;
    std::vector<float> vector(dimensions_);
    for (uint32_t i = 0; i < dimensions_; ++i) vector[i] = static_cast<float>(i == 0 ? bytes : i);
    return vector;
  }

  EmbedResponse Answer(const EmbedRequest& request) const {
    EmbedResponse response{
        .model = request.options.model.empty() ? "fake" : request.options.model, .model_revision = "f0", .results = {}};
    for (const EmbedInput& input : request.inputs) {
      EmbedResult result;
      result.status = input_status_;
      const bool broken =
          (input.text && input.text->text == "broken") || (input.image && input.image->encoded == "broken");
      if (broken) result.status = absl::InvalidArgumentError("the input is broken");
      if (result.status.ok()) {
        if (input.text) {
          const size_t ids = input.text->token_ids ? input.text->token_ids->size() : 0;
          result.text = Vector(ids > 0 ? ids : input.text->text.size());
          result.token_count = static_cast<uint32_t>(ids > 0 ? ids : input.text->text.size() + 2);
          result.truncated = result.token_count > 16;
        }
        if (input.image) {
          result.image =
              Vector(input.image->raw_rgb ? input.image->raw_rgb->bytes.size() : input.image->encoded.size());
        }
        if (request.kind == RequestKind::kPair) result.fused = Vector(1);
        result.times.compute = std::chrono::microseconds(7);
      }
      response.results.push_back(std::move(result));
    }
    return response;
  }

  const uint32_t dimensions_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Accepted> waiting_;
  bool held_ = false;
  bool stop_ = false;
  bool draining_ = false;
  bool completing_ = false;
  size_t released_ = 0;
  size_t submitted_ = 0;
  absl::Status refusal_;
  absl::Status input_status_;
  EngineSnapshot snapshot_;
  std::vector<float> vector_;
  std::vector<ModelInfo> models_ = {Describe("fake"), Describe("second")};
  bool operations_held_ = false;
  absl::Status operation_refusal_;
  std::vector<std::string> operation_threads_;
  ModelOptions last_model_options_;
  Duration last_unload_timeout_{0};
  EmbedOptions last_options_;
  std::shared_ptr<CancelToken> last_cancel_;
  std::thread thread_;
};

}  // namespace tributary
