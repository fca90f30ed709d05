// Models that are loaded, replaced and unloaded while the engine runs.
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "tests/engine/pipeline/pipeline_test_support.h"
#include "tests/support/fake_device.h"

namespace tributary {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr size_t kProgramsOfModel = 3;

// Answers are told apart by their dimension: each version of a model has its own.
FakeModelOptions Version(const std::string& name, uint32_t dimensions) {
  FakeModelOptions model;
  model.info.name = name;
  model.info.revision = "r" + std::to_string(dimensions);
  model.info.dimensions = dimensions;
  return model;
}

// What an ML engineer's folders would be: what LoadModel finds under a name.
class Shelf {
 public:
  explicit Shelf(std::shared_ptr<FakeControl> control) : control_(std::move(control)) {}

  void Put(FakeModelOptions model) {
    std::lock_guard lock(mutex_);
    models_[model.info.name] = std::move(model);
  }
  void Break(const std::string& name) {
    std::lock_guard lock(mutex_);
    models_.erase(name);
  }
  // From now on loads wait until Release().
  void Hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void WaitUntilLoading(size_t loads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= loads; });
  }
  size_t most_at_once() const {
    std::lock_guard lock(mutex_);
    return most_at_once_;
  }
  ModelLoader Loader() {
    return [this](const ModelOptions& options) { return Load(options); };
  }

 private:
  absl::StatusOr<ServedModel> Load(const ModelOptions& options) {
    std::unique_lock lock(mutex_);
    ++begun_;
    most_at_once_ = std::max(most_at_once_, ++loading_);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    --loading_;
    const auto found = models_.find(options.name);
    if (found == models_.end()) return absl::NotFoundError("model '" + options.name + "': no such folder");
    return MakeFakeModel(found->second, control_);
  }

  const std::shared_ptr<FakeControl> control_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, FakeModelOptions> models_;
  bool held_ = false;
  size_t begun_ = 0;
  size_t loading_ = 0;
  size_t most_at_once_ = 0;
};

ModelOptions Options(const std::string& name) {
  ModelOptions options;
  options.name = name;
  options.text.folder = "/shelf/" + name;
  return options;
}

EmbedRequest TextFor(const std::string& model, const std::string& text) {
  EmbedRequest request = TextRequest({text});
  request.options.model = model;
  request.options.normalise = false;
  return request;
}

// An engine that serves "a" of 8 dimensions, the default, over two fake devices.
struct House {
  explicit House(EngineOptions engine_options = {}) : options(std::move(engine_options)) {
    FakeParts fakes = MakeFakePipelineParts(&clock, Version("a", 8));
    control = fakes.control;
    shelf = std::make_unique<Shelf>(control);
    devices = UseTwoFakeDevices(fakes.parts, &clock);
    fakes.parts.loader = shelf->Loader();
    auto created = CreatePipeline(options, std::move(fakes.parts), &clock, &observer);
    REQUIRE(created.ok());
    engine = *std::move(created);
  }
  ModelInfo Load(const FakeModelOptions& model) {
    shelf->Put(model);
    auto loaded = engine->LoadModel(Options(model.info.name));
    CAPTURE(std::string(loaded.status().message()));
    REQUIRE(loaded.ok());
    return *loaded;
  }
  EmbedResponse Embed(EmbedRequest request) { return EmbedWith(*engine, std::move(request)); }
  absl::StatusCode SubmitCode(const std::string& model) {
    Answer answer;
    const absl::Status status = engine->Submit(TextFor(model, "x"), answer.Callback());
    if (status.ok()) answer.Wait();
    return status.code();
  }

  SteadyClock clock;
  CountingObserver observer;
  EngineOptions options;
  std::shared_ptr<FakeControl> control;
  std::unique_ptr<Shelf> shelf;
  std::vector<FakeDevice*> devices;  // owned by the engine
  std::unique_ptr<Engine> engine;
};

TEST_CASE("A model that is loaded at run time serves beside the others") {
  House house;
  const ModelInfo info = house.Load(Version("b", 12));
  CHECK(info.name == "b");
  CHECK_FALSE(info.is_default);
  CHECK(info.pair);
  const auto models = house.engine->Models();
  REQUIRE(models.size() == 2);
  CHECK(models[0].name == "a");
  CHECK(models[1].name == "b");
  CHECK(house.Embed(TextFor("b", "x")).results[0].text == FakeTextVector("x", 12));
  CHECK(house.Embed(TextFor("", "x")).results[0].text == FakeTextVector("x", 8));
}

TEST_CASE("A model with larger batches than any before runs them") {
  House house;
  FakeModelOptions large = Version("b", 64);
  large.info.max_tokens = 4000;
  large.max_batch_units[0] = 8000;
  large.max_batch_items = 200;
  large.placement = {{{0, 1}, {1}, {0}}};
  house.Load(large);
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.emplace_back(static_cast<size_t>(3000 + i), 'x');
  EmbedRequest request = TextRequest(texts);
  request.options.model = "b";
  request.options.normalise = false;
  const EmbedResponse response = house.Embed(std::move(request));
  for (size_t i = 0; i < texts.size(); ++i) REQUIRE(response.results[i].text == FakeTextVector(texts[i], 64));
  CHECK(house.devices[0]->Violations().empty());
  CHECK(house.devices[1]->Violations().empty());
}

TEST_CASE("A replaced model answers what it was asked, new requests get the new one, and the default stays default") {
  House house;
  house.control->Hold();
  Answer old;
  REQUIRE(house.engine->Submit(TextFor("a", "x"), old.Callback()).ok());
  house.control->WaitUntilBegun(1);
  CHECK(house.Load(Version("a", 12)).is_default);
  Answer fresh;
  REQUIRE(house.engine->Submit(TextFor("", "x"), fresh.Callback()).ok());
  house.control->Release();
  CHECK(old.Wait().results[0].text == FakeTextVector("x", 8));
  CHECK(old.Wait().model_revision == "r8");
  CHECK(fresh.Wait().results[0].text == FakeTextVector("x", 12));
  CHECK(fresh.Wait().model_revision == "r12");
  house.control->WaitUntilLivingPrograms(kProgramsOfModel);  // the old ones are gone
}

TEST_CASE("An unloaded model is NOT_FOUND at once, ends what it has, and gives its memory back") {
  House house;
  house.Load(Version("b", 12));
  CHECK(house.control->LivingPrograms() == 2 * kProgramsOfModel);
  house.control->Hold();
  Answer last;
  REQUIRE(house.engine->Submit(MakeRequest(RequestKind::kPair, {{"a cat", "cat.jpg"}}), last.Callback()).ok());
  EmbedRequest of_b = TextFor("b", "x");
  Answer held;
  const absl::Status submitted = house.engine->Submit(std::move(of_b), held.Callback());
  REQUIRE(submitted.ok());
  CHECK(house.engine->UnloadModel("b", milliseconds(1), {}).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(house.SubmitCode("b") == absl::StatusCode::kNotFound);
  CHECK(house.engine->Models().size() == 1);
  CHECK(house.control->LivingPrograms() == 2 * kProgramsOfModel);
  house.control->Release();
  CHECK(held.Wait().results[0].text == FakeTextVector("x", 12));
  CHECK(last.Wait().results[0].status.ok());
  house.control->WaitUntilLivingPrograms(kProgramsOfModel);
  CHECK(house.engine->UnloadModel("b", hours(1), {}).code() == absl::StatusCode::kNotFound);

  house.Load(Version("b", 16));
  CHECK(house.Embed(TextFor("b", "x")).results[0].text == FakeTextVector("x", 16));
  CHECK(house.engine->UnloadModel("b", hours(1), {}).ok());
  CHECK(house.control->LivingPrograms() == kProgramsOfModel);
}

TEST_CASE("An unload says when the name is free, and waits for what the model had replaced, too") {
  House house;
  house.Load(Version("b", 12));
  house.control->Hold();
  Answer of_replaced;
  REQUIRE(house.engine->Submit(TextFor("b", "x"), of_replaced.Callback()).ok());
  house.control->WaitUntilBegun(1);
  house.Load(Version("b", 16));
  size_t models_once_removed = 0;
  const auto count = [&] { models_once_removed = house.engine->Models().size(); };
  CHECK(house.engine->UnloadModel("b", milliseconds(1), count).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(models_once_removed == 1);
  CHECK(house.control->LivingPrograms() >= 2 * kProgramsOfModel);

  house.Load(Version("b", 20));
  Engine* const engine = house.engine.get();
  auto unloading = std::async(std::launch::async, [=] { return engine->UnloadModel("b", hours(1), {}).code(); });
  while (engine->Models().size() > 1) std::this_thread::yield();  // ends, or ctest's timeout says that it hangs
  house.control->Release();
  CHECK(unloading.get() == absl::StatusCode::kOk);
  CHECK(house.control->LivingPrograms() == kProgramsOfModel);
  CHECK(of_replaced.Wait().results[0].text == FakeTextVector("x", 12));
}

TEST_CASE("The default model is not unloaded, and what is wrong with a load says so and changes nothing") {
  EngineOptions options;
  options.max_models = 2;
  House house(options);
  CHECK(house.engine->UnloadModel("a", hours(1), {}).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(house.engine->UnloadModel("none", hours(1), {}).code() == absl::StatusCode::kNotFound);

  absl::Status status = house.engine->LoadModel(Options("missing")).status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(status.message() == "model 'missing': no such folder");
  ModelOptions invalid = Options("b");
  invalid.text.dtype = "int3";
  status = house.engine->LoadModel(invalid).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), ContainsSubstring("model.text.dtype must be"));

  FakeModelOptions elsewhere = Version("b", 12);
  elsewhere.placement[1] = {7};
  house.shelf->Put(elsewhere);
  status = house.engine->LoadModel(Options("b")).status();
  CHECK(status.message() == "model 'b': image is placed on device 7 of 2");

  FakeModelOptions large = Version("b", 4096);
  house.shelf->Put(large);
  house.devices[0]->RefuseAllocations(true);
  status = house.engine->LoadModel(Options("b")).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(status.message() == "model 'b': the fake device has no memory left");
  house.devices[0]->RefuseAllocations(false);

  CHECK(house.control->LivingPrograms() == kProgramsOfModel);
  house.Load(Version("b", 12));
  house.shelf->Put(Version("c", 12));
  status = house.engine->LoadModel(Options("c")).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(status.message()), ContainsSubstring("2 models are served and 0 are on their way out"));
  house.Load(Version("b", 16));  // in place of one
  CHECK(house.Embed(TextFor("", "x")).results[0].text == FakeTextVector("x", 8));
}

TEST_CASE("Models on their way out are bounded too") {
  EngineOptions options;
  options.max_models = 1;
  House house(options);
  house.control->Hold();
  Answer first;
  REQUIRE(house.engine->Submit(TextFor("a", "x"), first.Callback()).ok());
  house.control->WaitUntilBegun(1);
  house.Load(Version("a", 12));
  const absl::Status status = house.engine->LoadModel(Options("a")).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  house.control->Release();
  CHECK(first.Wait().results[0].status.ok());
  house.control->WaitUntilLivingPrograms(kProgramsOfModel);
}

TEST_CASE("An engine without a loader loads nothing, and a draining one neither") {
  EngineFixture plain;
  CHECK(plain.engine->LoadModel(Options("b")).status().code() == absl::StatusCode::kUnimplemented);
  House house;
  house.shelf->Put(Version("b", 12));
  house.engine->StopAdmitting();
  CHECK(house.engine->LoadModel(Options("b")).status().code() == absl::StatusCode::kUnavailable);
  CHECK(house.engine->Models().size() == 1);
}

TEST_CASE("Loads are made one after the other, and requests are served meanwhile") {
  House house;
  house.shelf->Put(Version("b", 12));
  house.shelf->Put(Version("c", 16));
  house.shelf->Hold();
  auto b = std::async(std::launch::async, [&] { return house.engine->LoadModel(Options("b")).ok(); });
  house.shelf->WaitUntilLoading(1);
  auto c = std::async(std::launch::async, [&] { return house.engine->LoadModel(Options("c")).ok(); });
  for (int i = 0; i < 20; ++i) REQUIRE(house.Embed(TextFor("a", "x")).results[0].status.ok());
  house.shelf->Release();
  CHECK(b.get());
  CHECK(c.get());
  CHECK(house.shelf->most_at_once() == 1);
  CHECK(house.engine->Models().size() == 3);
}

TEST_CASE("The engine goes down while a load runs and others wait: all end, and nothing is left") {
  House house;
  house.shelf->Put(Version("b", 12));
  house.shelf->Hold();
  Engine* const engine = house.engine.get();
  auto running = std::async(std::launch::async, [=] { return engine->LoadModel(Options("b")).status().code(); });
  house.shelf->WaitUntilLoading(1);
  engine->StopAdmitting();
  auto releaser = std::async(std::launch::async, [&] { house.shelf->Release(); });
  house.engine.reset();
  CHECK(running.get() == absl::StatusCode::kUnavailable);
  CHECK(house.control->LivingPrograms() == 0);
}

TEST_CASE("The engine goes down while an unload waits for a request: it is answered, and nothing is left") {
  House house;
  house.Load(Version("b", 12));
  house.control->Hold();
  Answer held;
  REQUIRE(house.engine->Submit(TextFor("b", "x"), held.Callback()).ok());
  house.control->WaitUntilBegun(1);
  Engine* const engine = house.engine.get();
  auto unloading = std::async(std::launch::async, [=] { return engine->UnloadModel("b", hours(1), {}).code(); });
  while (engine->Models().size() > 1) std::this_thread::yield();  // ends, or ctest's timeout says that it hangs
  auto releaser = std::async(std::launch::async, [&] {
    unloading.wait();
    house.control->Release();
  });
  house.engine.reset();
  CHECK(unloading.get() == absl::StatusCode::kDeadlineExceeded);
  CHECK(held.Wait().results[0].text == FakeTextVector("x", 12));
  CHECK(house.control->LivingPrograms() == 0);
}

// Requests from several threads until told to stop. `may_be_missing`: the model is also unloaded meanwhile.
struct Traffic {
  void Run(Engine& engine, const std::string& model, bool may_be_missing, unsigned seed) {
    std::mt19937 random(seed);
    while (!stop) {
      const std::string content(1 + random() % 60, static_cast<char>('a' + random() % 26));
      const auto kind = static_cast<RequestKind>(random() % 3);
      TestInput input;
      if (kind != RequestKind::kImage) input.text = content;
      if (kind != RequestKind::kText) input.image = content;
      EmbedRequest request = MakeRequest(kind, {input});
      request.options.model = model;
      request.options.normalise = false;
      Answer answer;
      const absl::Status status = engine.Submit(std::move(request), answer.Callback());
      if (status.code() == absl::StatusCode::kNotFound && may_be_missing) {
        ++not_found;
        continue;
      }
      if (!status.ok()) {
        ++failed;
        continue;
      }
      Check(answer.Wait(), model, kind, content);
    }
  }

  // Right by the version that says it answered: all of a request on one version, whatever was switched meanwhile.
  void Check(const EmbedResponse& response, const std::string& model, RequestKind kind, const std::string& content) {
    const EmbedResult& result = response.results.at(0);
    FakeModelOptions version;
    version.info.dimensions = static_cast<uint32_t>(std::stoul(response.model_revision.substr(1)));
    const bool good =
        result.status.ok() && response.model == model &&
        (kind == RequestKind::kImage || result.text == FakeTextVector(content, version.info.dimensions)) &&
        (kind == RequestKind::kText || result.image == FakeImageVector(content, version.info)) &&
        (kind != RequestKind::kPair || result.fused.size() == version.info.dimensions);
    ++(good ? answered : failed);
  }

  std::atomic<bool> stop{false};
  std::atomic<size_t> answered{0};
  std::atomic<size_t> failed{0};
  std::atomic<size_t> not_found{0};
};

TEST_CASE("Models are loaded, replaced and unloaded under traffic: no request fails, and all memory comes back") {
  const unsigned seed = GENERATE(1u, 2u);
  CAPTURE(seed);
  House house;
  Traffic traffic;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] { traffic.Run(*house.engine, t % 2 == 0 ? "a" : "b", t % 2 == 1, seed * 100 + t); });
  }
  std::mt19937 random(seed);
  const std::vector<std::vector<size_t>> kPlaces = {{0}, {1}, {0, 1}};
  size_t programs_of_a = kProgramsOfModel;
  for (uint32_t round = 1; round <= 40; ++round) {
    FakeModelOptions next = Version(random() % 2 == 0 ? "a" : "b", 8 + round);  // the slots must grow each time
    for (auto& devices : next.placement) devices = kPlaces[random() % 3];
    next.max_batch_units[0] = 64 + 8 * (random() % 64);
    house.Load(next);
    if (next.info.name == "a") {
      programs_of_a = 0;
      for (const auto& devices : next.placement) programs_of_a += devices.size();
    }
    const size_t goal = traffic.answered + 5;
    while (traffic.answered < goal && traffic.failed == 0) std::this_thread::yield();
    if (round % 3 == 0) {
      const absl::Status status = house.engine->UnloadModel("b", hours(1), {});
      CHECK((status.ok() || status.code() == absl::StatusCode::kNotFound));
    }
  }
  traffic.stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(traffic.failed == 0);
  CHECK(traffic.answered > 100);
  CHECK(traffic.not_found > 0);

  const absl::Status unloaded = house.engine->UnloadModel("b", hours(1), {});
  CHECK((unloaded.ok() || unloaded.code() == absl::StatusCode::kNotFound));
  house.control->WaitUntilLivingPrograms(programs_of_a);
  REQUIRE(house.engine->WaitUntilIdle(hours(1)));
  const EngineSnapshot idle = house.engine->Snapshot();
  CHECK(idle.requests_in_flight == 0);
  CHECK(idle.items_in_flight == 0);
  CHECK(house.devices[0]->Violations().empty());
  CHECK(house.devices[1]->Violations().empty());
}

}  // namespace
}  // namespace tributary
