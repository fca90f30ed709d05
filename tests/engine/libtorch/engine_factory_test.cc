// The whole engine on the default models: text, images and pairs through preparation, queues, scheduler, lanes and
// fusion.
#include "engine/libtorch/engine_factory.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/engine/libtorch/text_goldens.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace {

// What operator new grants this whole program at once.
std::atomic<size_t> largest_allocation_bytes{SIZE_MAX};

}  // namespace

// Not inlined: g++ would warn of memory from new that goes to free.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* memory = bytes <= largest_allocation_bytes ? std::malloc(bytes) : nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return bytes <= largest_allocation_bytes ? std::malloc(bytes) : nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace tributary {
namespace {

EngineOptions DefaultModels(const std::string& cache_folder) {
  EngineOptions options;
  options.lanes.device = "cpu";
  options.lanes.count = 2;
  options.prepare.threads = 1;
  options.cache_folder = cache_folder;
  ModelOptions model;
  model.name = "minilm";
  model.text.folder = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";
  model.text.dtype = "fp32";
  model.image.folder = TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0";
  model.image.labels = TRIBUTARY_SOURCE_DIR "/config/imagenet-1k-labels.txt";
  options.models.push_back(model);
  return options;
}

EmbedResponse Call(Engine& engine, EmbedRequest request) {
  std::promise<EmbedResponse> done;
  auto answer = done.get_future();
  const auto status = engine.Submit(std::move(request), [&](EmbedResponse r) { done.set_value(std::move(r)); });
  CAPTURE(std::string(status.message()));
  REQUIRE(status.ok());
  return answer.get();
}

EmbedInput Text(std::string_view text) { return {.text = TextInput{.text = text, .token_ids = {}}, .image = {}}; }

double Norm(const std::vector<float>& vector) {
  double sum = 0;
  for (const float value : vector) sum += double{value} * value;
  return std::sqrt(sum);
}

TEST_CASE("The default models answer text, image and pair calls end to end, equal to the reference") {
  const TemporaryFolder cache;
  SteadyClock clock;
  Observer observer;
  auto engine = CreateLibtorchEngine(DefaultModels(cache.path()), &clock, &observer);
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());

  const auto models = (*engine)->Models();
  REQUIRE(models.size() == 1);
  CHECK(models[0].name == "minilm");
  CHECK(models[0].is_default);
  CHECK((models[0].text && models[0].image && models[0].pair));
  CHECK(models[0].dimensions == 384);
  CHECK(models[0].max_tokens == 256);
  CHECK(models[0].vocabulary_size == 30522);
  CHECK(models[0].image_width == 224);
  CHECK(models[0].normalised_by_default);
  CHECK(models[0].compute_type == "fp32");
  CHECK((models[0].image_compute_type == "fp32" || models[0].image_compute_type == "bf16"));  // the machine's
  CHECK(models[0].fusion == "weighted_mean");
  CHECK(models[0].parameter_count > 27'000'000);

  // Text: from the string on, through the tokeniser.
  const auto goldens = LoadTextGoldens();
  EmbedRequest texts;
  for (const TextGolden& golden : goldens) texts.inputs.push_back(Text(golden.text));
  const auto answer = Call(**engine, std::move(texts));
  CHECK(answer.model == "minilm");
  CHECK(answer.model_revision == models[0].revision);
  REQUIRE(answer.results.size() == goldens.size());
  for (size_t i = 0; i < goldens.size(); ++i) {
    CAPTURE(goldens[i].name);
    const EmbedResult& result = answer.results[i];
    REQUIRE(result.status.ok());
    CHECK(result.token_count == goldens[i].ids.size());
    CHECK(Norm(result.text) == Approx(1).margin(1e-5));
    CHECK(Cosine(result.text, goldens[i].vector) >= 0.9999);
  }

  // Pairs: a colour field, with and without its text.
  const std::string pixels(size_t{64} * 48 * 3, '\x7f');
  const ImageInput image{.encoded = {}, .raw_rgb = ImageInput::RawRgb{.bytes = pixels, .width = 64, .height = 48}};
  EmbedRequest pairs;
  pairs.kind = RequestKind::kPair;
  pairs.inputs = {
      Text("a grey wall"), {.text = {}, .image = image}, {.text = Text("a grey wall").text, .image = image}};
  const auto fused = Call(**engine, std::move(pairs)).results;
  REQUIRE(fused.size() == 3);
  for (const EmbedResult& result : fused) REQUIRE(result.status.ok());
  CHECK(Cosine(fused[0].fused, fused[0].text) >= 0.9999);
  CHECK(fused[0].image.empty());
  CHECK(Cosine(fused[1].fused, fused[1].image) >= 0.9999);
  CHECK(fused[1].text.empty());
  std::vector<float> middle;
  for (size_t d = 0; d < 384; ++d) middle.push_back(fused[2].text[d] + fused[2].image[d]);
  CHECK(Cosine(fused[2].fused, middle) >= 0.9999);
  CHECK(Norm(fused[2].fused) == Approx(1).margin(1e-5));

  // Images alone give the same vector as in a pair.
  EmbedRequest images;
  images.kind = RequestKind::kImage;
  images.inputs = {{.text = {}, .image = image}};
  const auto alone = Call(**engine, std::move(images)).results;
  CHECK(Cosine(alone[0].image, fused[2].image) >= 0.9999);
}

TEST_CASE("Length, pixels, lanes and fusion are those of the options") {
  const TemporaryFolder cache;
  SteadyClock clock;
  Observer observer;
  EngineOptions options = DefaultModels(cache.path());
  options.lanes.count = 3;
  options.limits.max_image_pixels = 100;
  options.models[0].text.max_tokens = 16;
  options.models[0].fusion.text_weight = 1;
  auto engine = CreateLibtorchEngine(options, &clock, &observer);
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());
  CHECK((*engine)->Models()[0].max_tokens == 16);
  CHECK((*engine)->Snapshot().lanes.size() == 3);

  const std::string pixels(size_t{11} * 10 * 3, '\x7f');
  const auto image = [&](uint32_t width) {
    const auto rows = std::string_view(pixels).substr(0, size_t{width} * 10 * 3);
    return ImageInput{.encoded = {}, .raw_rgb = ImageInput::RawRgb{.bytes = rows, .width = width, .height = 10}};
  };
  EmbedRequest pairs;
  pairs.kind = RequestKind::kPair;
  const std::string long_text = "a text of many more words than the sixteen tokens that this model is told to take in";
  pairs.inputs = {{.text = Text(long_text).text, .image = image(10)}, {.text = {}, .image = image(11)}};
  const auto results = Call(**engine, std::move(pairs)).results;
  REQUIRE(results[0].status.ok());
  CHECK(results[0].token_count == 16);
  CHECK(results[0].truncated);
  CHECK(Cosine(results[0].fused, results[0].text) >= 0.9999);
  CHECK(results[1].status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(results[1].status.message()), ContainsSubstring("the limit is 100 pixels"));
}

TEST_CASE("A model of images alone has the shorter sizes its options name, and no prompts") {
  const TemporaryFolder cache;
  SteadyClock clock;
  Observer observer;
  EngineOptions options = DefaultModels(cache.path());
  options.models[0].text = {};
  options.models[0].image.labels = "";
  options.models[0].matryoshka_dimensions = {64, 256};
  const auto engine = CreateLibtorchEngine(options, &clock, &observer);
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());
  const ModelInfo model = (*engine)->Models().front();
  CHECK(model.matryoshka_dimensions == std::vector<uint32_t>{64, 256});
  CHECK_FALSE(model.text);

  options.models[0].matryoshka_dimensions = {static_cast<int>(model.dimensions) + 1};
  CHECK_THAT(std::string(CreateLibtorchEngine(options, &clock, &observer).status().message()),
             ContainsSubstring("matryoshka_dimensions has"));
}

TEST_CASE("What the options name and is not there is an error with the model's name and the file") {
  const TemporaryFolder cache;
  SteadyClock clock;
  Observer observer;
  const auto error_of = [&](const EngineOptions& options) {
    const auto engine = CreateLibtorchEngine(options, &clock, &observer);
    REQUIRE_FALSE(engine.ok());
    return std::string(engine.status().message());
  };

  EngineOptions options = DefaultModels(cache.path());
  options.models[0].text.folder = "/nonexistent";
  CHECK_THAT(error_of(options), ContainsSubstring("model 'minilm': cannot open /nonexistent/config.json"));

  options = DefaultModels(cache.path());
  options.models[0].image.labels = "/nonexistent.txt";
  CHECK_THAT(error_of(options), ContainsSubstring("/nonexistent.txt"));

  options = DefaultModels(cache.path());
  options.models[0].text.folder = "";
  CHECK_THAT(error_of(options), ContainsSubstring("text.folder"));

  options = DefaultModels(cache.path());
  options.lanes.device = "cuda:999";
  const auto engine = CreateLibtorchEngine(options, &clock, &observer);
  CHECK(engine.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(engine.status().message()), ContainsSubstring("lanes.device is cuda:999"));

  options = DefaultModels(cache.path());
  options.models[0].image.placement = {"cpu", "cuda:999"};
  CHECK_THAT(error_of(options), ContainsSubstring("models[0].image.placement is cuda:999"));
}

TEST_CASE("A model loaded at run time gives the vectors of one loaded at start, and goes when it is unloaded") {
  const TemporaryFolder cache;
  SteadyClock clock;
  Observer observer;
  EngineOptions options = DefaultModels(cache.path());
  options.models[0].text.placement = {"cpu"};
  auto engine = CreateLibtorchEngine(options, &clock, &observer);
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());

  ModelOptions second = options.models[0];
  second.name = "second";
  second.image.folder = "";
  const auto loaded = (*engine)->LoadModel(second);
  CAPTURE(std::string(loaded.status().message()));
  REQUIRE(loaded.ok());
  CHECK_FALSE(loaded->is_default);
  CHECK_FALSE(loaded->image);
  const auto embed = [&](const std::string& model) {
    EmbedRequest request;
    request.options.model = model;
    request.inputs.push_back(Text("a photo of a cat"));
    return Call(**engine, std::move(request)).results[0].text;
  };
  CHECK(embed("second") == embed("minilm"));

  second.text.folder = "/nonexistent";
  CHECK_THAT(std::string((*engine)->LoadModel(second).status().message()),
             ContainsSubstring("model 'second': cannot open /nonexistent/config.json"));
  CHECK(embed("second") == embed("minilm"));  // what served before serves on
  second.text.placement = {"cuda:999"};
  CHECK_THAT(std::string((*engine)->LoadModel(second).status().message()), ContainsSubstring("model.text.placement"));
  CHECK((*engine)->UnloadModel("second", std::chrono::hours(1), {}).ok());
  CHECK((*engine)->Models().size() == 1);
}

TEST_CASE("Another tokeniser or configuration over the same weights does not meet the cached label vectors") {
  const TemporaryFolder cache;
  const TemporaryFolder changed;
  const EngineOptions original = DefaultModels(cache.path());
  const std::string& folder = original.models[0].text.folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::create_symlink(entry.path(), changed.File(entry.path().filename()));
  }
  const auto change = [&](const std::string& name, const std::string& from, const std::string& to) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    std::string content{std::istreambuf_iterator<char>(file), {}};
    const size_t at = content.find(from);
    REQUIRE(at != std::string::npos);
    std::filesystem::remove(changed.File(name));
    changed.Write(name, content.replace(at, from.size(), to));
  };
  SteadyClock clock;
  Observer observer;
  const auto cached_after = [&](const EngineOptions& options) {
    const auto status = CreateLibtorchEngine(options, &clock, &observer).status();
    CAPTURE(std::string(status.message()));
    REQUIRE(status.ok());
    return std::distance(std::filesystem::directory_iterator(cache.path()), {});
  };

  CHECK(cached_after(original) == 1);
  EngineOptions options = original;
  options.models[0].text.folder = changed.path();
  CHECK(cached_after(options) == 1);
  change("config.json", "1e-12", "1e-5");
  CHECK(cached_after(options) == 2);
  change("tokenizer.json", R"("lowercase":true)", R"("lowercase":false)");
  CHECK(cached_after(options) == 3);
}

TEST_CASE("Where a thread or memory is refused while models load, the answer is a status, not the end of the process") {
  SteadyClock clock;
  Observer observer;
  EngineOptions options = DefaultModels("");
  options.models[0].image.folder = "";

  pthread_attr_t usual;
  pthread_attr_t impossible;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&impossible) == 0);
  REQUIRE(pthread_attr_setstacksize(&impossible, size_t{1} << 47) == 0);  // more than there are addresses
  REQUIRE(pthread_setattr_default_np(&impossible) == 0);
  const auto no_thread = CreateLibtorchEngine(options, &clock, &observer).status();
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  CHECK(no_thread.code() == absl::StatusCode::kResourceExhausted);

  largest_allocation_bytes = 1'000'000;  // the vocabulary takes more
  const auto no_memory = CreateLibtorchEngine(options, &clock, &observer).status();
  largest_allocation_bytes = SIZE_MAX;
  CHECK(no_memory == absl::ResourceExhaustedError("model 'minilm': out of memory"));
}

TEST_CASE("The version of the loaded LibTorch is told") {
  CHECK_THAT(LibtorchVersion(), ContainsSubstring("2.") && ContainsSubstring("+cu"));
}

}  // namespace
}  // namespace tributary
