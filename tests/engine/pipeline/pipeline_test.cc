// The whole flow on CPU lanes over the fake model: answers, errors, limits, times, drain.
#include "engine/pipeline/pipeline.h"

#include <cmath>
#include <stdexcept>
#include <thread>

#include "tests/engine/pipeline/pipeline_test_support.h"

namespace tributary {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::vector<float> Normalised(std::vector<float> vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(sum));
  return vector;
}
std::vector<float> TextVector(std::string_view text) {
  return FakeTextVector(text, FakeModelOptions{}.info.dimensions);
}
std::vector<float> ImageVector(std::string_view image) { return FakeImageVector(image, FakeModelOptions{}.info); }

TEST_CASE("A text call returns its vectors in order, with token counts, model and times") {
  EngineFixture f;
  EmbedRequest request = TextRequest({"a cat", "", std::string(100, 'x')});
  request.options.normalise = false;
  const EmbedResponse response = f.Embed(std::move(request));

  CHECK(response.model == "fake");
  CHECK(response.model_revision == "f0");
  REQUIRE(response.results.size() == 3);
  CHECK(response.results[0].text == TextVector("a cat"));
  CHECK(response.results[0].token_count == 5);
  CHECK_FALSE(response.results[0].truncated);
  CHECK(response.results[1].text == TextVector(std::string(1, '\0')));
  CHECK(response.results[2].text == TextVector(std::string(64, 'x')));
  CHECK(response.results[2].token_count == 64);
  CHECK(response.results[2].truncated);
  for (const EmbedResult& result : response.results) {
    CHECK(result.status.ok());
    CHECK(result.image.empty());
    CHECK(result.fused.empty());
    const StageTimes& times = result.times;
    CHECK(times.fusion == Duration{0});
    CHECK(times.compute > Duration{0});
    CHECK(times.total >= times.prepare_wait + times.prepare + times.queue + times.lane + times.compute);
  }
  CHECK(f.observer.Items(Modality::kText) == 3);
}

TEST_CASE("Vectors are normalised as the request says, else as the model says") {
  EngineFixture f;
  CheckNear(f.Embed(TextRequest({"text"})).results[0].text, Normalised(TextVector("text")));
  EmbedRequest raw = TextRequest({"text"});
  raw.options.normalise = false;
  const EmbedResponse answer_raw = f.Embed(std::move(raw));
  CHECK(answer_raw.results[0].text == TextVector("text"));
}

TEST_CASE("A text alone and among 64 others has the same vector") {
  EngineFixture f;
  std::vector<std::string> texts;
  for (int i = 0; i < 64; ++i) texts.push_back("text " + std::string(i, 'y'));
  f.control->Hold();  // so that they meet in few batches
  Answer together;
  REQUIRE(f.engine->Submit(TextRequest(texts), together.Callback()).ok());
  f.control->WaitUntilBegun(1);
  f.control->Release();

  for (size_t i = 0; i < texts.size(); ++i) {
    CHECK(together.Wait().results[i].text == f.Embed(TextRequest({texts[i]})).results[0].text);
  }
}

TEST_CASE("A completion that throws costs its own request only, and holds no permit") {
  EngineOptions options;
  options.completion_threads = 1;
  options.admission.max_items = 1;
  EngineFixture f(options);
  REQUIRE(f.engine
              ->Submit(TextRequest({"thrown away"}),
                       [](const EmbedResponse&) { throw std::runtime_error("the completion was told to throw"); })
              .ok());
  REQUIRE(f.engine->WaitUntilIdle(hours(1)));
  CHECK(f.Embed(TextRequest({"text"})).results[0].status.ok());
}

TEST_CASE("An image call takes encoded and raw images") {
  EngineFixture f;
  const std::string raw(3 * 2 * 2, 'p');
  EmbedRequest request = ImageRequest({"an encoded image", raw, raw});
  request.inputs[1].image->raw_rgb = ImageInput::RawRgb{raw, 2, 2};
  request.inputs[2].image->raw_rgb = ImageInput::RawRgb{raw, 2, 3};  // 12 bytes are not 2x3 pixels
  request.options.normalise = false;
  const EmbedResponse response = f.Embed(std::move(request));

  CHECK(response.results[0].image == ImageVector("an encoded image"));
  CHECK(response.results[1].image == ImageVector(raw));
  CHECK(CodeOf(response, 2) == absl::StatusCode::kInvalidArgument);
  CHECK(response.results[0].token_count == 0);
}

TEST_CASE("A pair returns both parts and the fusion of the normalised parts") {
  EngineFixture f;
  EmbedRequest request = MakeRequest(RequestKind::kPair, {{"a cat", "a photo"}});
  request.options.normalise = false;
  const EmbedResponse response = f.Embed(std::move(request));

  const EmbedResult& result = response.results[0];
  REQUIRE(result.status.ok());
  CHECK(result.text == TextVector("a cat"));
  CHECK(result.image == ImageVector("a photo"));
  std::vector<float> mean = Normalised(TextVector("a cat"));
  const std::vector<float> image = Normalised(ImageVector("a photo"));
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + image[i]) / 2;
  CheckNear(result.fused, mean);
  CHECK(result.token_count == 5);
  CHECK(result.times.fusion > Duration{0});
  CHECK(result.times.total >= result.times.fusion + result.times.compute);
  CHECK(f.control->BatchSizes(Modality::kFusion) == std::vector<size_t>{1});
}

TEST_CASE("A pair with one part goes through fusion with the other part absent") {
  EngineFixture f;
  const EmbedResponse response =
      f.Embed(MakeRequest(RequestKind::kPair, {{"a cat", std::nullopt}, {std::nullopt, "a photo"}}));

  CheckNear(response.results[0].fused, Normalised(TextVector("a cat")));
  CHECK(response.results[0].image.empty());
  CheckNear(response.results[1].fused, Normalised(ImageVector("a photo")));
  CHECK(response.results[1].text.empty());
  CHECK(f.observer.Items(Modality::kFusion) == 2);
}

TEST_CASE("A pair with a failed part fails with that part's status and never reaches fusion") {
  EngineFixture f;
  const std::string refused(fake::kRefused);
  const EmbedResponse response = f.Embed(
      MakeRequest(RequestKind::kPair, {{"a cat", refused}, {refused, "a photo"}, {std::nullopt, std::nullopt}}));

  for (size_t i = 0; i < 3; ++i) {
    CHECK(CodeOf(response, i) == absl::StatusCode::kInvalidArgument);
    CHECK(response.results[i].text.empty());
    CHECK(response.results[i].image.empty());
    CHECK(response.results[i].fused.empty());
  }
  CHECK(response.results[0].token_count == 5);
  CHECK(f.control->BatchSizes(Modality::kFusion).empty());
}

TEST_CASE("A part of length zero cannot be fused and counts for its own modality, whichever part came last") {
  const std::string zero(fake::kZeroVector);
  const auto [text, image, bad] = GENERATE_COPY(table<std::string, std::string, Modality>(
      {{zero, "a photo", Modality::kText}, {"a cat", zero, Modality::kImage}}));
  EngineFixture f;
  EmbedRequest request = MakeRequest(RequestKind::kPair, {{text, image}});
  request.options.normalise = false;
  const EmbedResponse failed = f.Embed(std::move(request));
  CHECK(CodeOf(failed, 0) == absl::StatusCode::kInternal);
  CHECK(f.observer.bad_vectors == std::map<Modality, size_t>{{bad, 1}});
}

TEST_CASE("One bad input never harms its neighbours") {
  const auto [bad, code] =
      GENERATE(table<std::string_view, absl::StatusCode>({{fake::kRefused, absl::StatusCode::kInvalidArgument},
                                                          {fake::kPreparerThrows, absl::StatusCode::kInternal},
                                                          {fake::kNotANumber, absl::StatusCode::kInternal},
                                                          {fake::kZeroVector, absl::StatusCode::kInternal}}));
  CAPTURE(bad);
  const bool image = GENERATE(false, true);
  EngineFixture f;
  std::vector<std::string> inputs;
  for (int i = 0; i < 8; ++i) inputs.push_back(i == 3 ? std::string(bad) : "good " + std::to_string(i));
  const EmbedResponse response = f.Embed(image ? ImageRequest(inputs) : TextRequest(inputs));

  for (size_t i = 0; i < 8; ++i) {
    const EmbedResult& result = response.results[i];
    CHECK(result.status.code() == (i == 3 ? code : absl::StatusCode::kOk));
    CHECK((image ? result.image : result.text).empty() == (i == 3));
  }
}

TEST_CASE("A failing batch fails its items with INTERNAL and the engine goes on") {
  const std::string bad(GENERATE(fake::kStageThrows, fake::kRunFails, fake::kRunThrows));
  CAPTURE(bad);
  EngineFixture f;
  CHECK(CodeOf(f.Embed(TextRequest({bad})), 0) == absl::StatusCode::kInternal);
  CHECK(CodeOf(f.Embed(TextRequest({"good"})), 0) == absl::StatusCode::kOk);
}

TEST_CASE("Inputs over a limit are refused with the value and the limit") {
  EngineOptions options;
  options.limits.max_text_bytes = 10;
  options.limits.max_text_tokens = 3;
  options.limits.max_image_bytes = 10;
  EngineFixture f(options);
  const std::vector<int32_t> too_many = {1, 2, 3, 4};
  const std::vector<int32_t> good = {97, 98};
  EmbedRequest request = TextRequest({"12345678901", "", ""});
  request.inputs[1].text->token_ids = too_many;
  request.inputs[2].text->token_ids = good;
  const EmbedResponse texts = f.Embed(std::move(request));

  auto message = [](const EmbedResponse& response, size_t i) {
    return std::string(response.results[i].status.message());
  };
  for (size_t i = 0; i < 2; ++i) CHECK(CodeOf(texts, i) == absl::StatusCode::kInvalidArgument);
  CHECK(message(texts, 0) == "the text has 11 bytes; the limit is 10");
  CHECK(message(texts, 1) == "token_ids has 4 ids; the limit is 3");
  CheckNear(texts.results[2].text, Normalised(TextVector("ab")));
  const EmbedResponse images = f.Embed(ImageRequest({"12345678901"}));
  CHECK(message(images, 0) == "the image has 11 bytes; the limit is 10");
}

TEST_CASE("A text that is too long is cut at its end or start, or refused, as the request says") {
  EngineFixture f;
  const std::string text = std::string(50, 'a') + std::string(50, 'b');
  auto embed = [&](Truncation truncation) {
    EmbedRequest request = TextRequest({text});
    request.options.truncation = truncation;
    return f.Embed(std::move(request)).results[0];
  };
  CheckNear(embed(Truncation::kEnd).text, Normalised(TextVector(text.substr(0, 64))));
  CheckNear(embed(Truncation::kStart).text, Normalised(TextVector(text.substr(36))));
  CHECK(embed(Truncation::kNone).status.code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("What concerns the whole call is refused at Submit, and its completion never runs") {
  EngineOptions options;
  options.admission.max_inputs_per_call = 4;
  options.admission.max_bytes = 100;
  FakeModelOptions model;
  model.info.image = false;
  model.info.pair = false;
  EngineFixture f(options, model);
  Answer answer;
  auto refusal = [&](EmbedRequest request) { return f.engine->Submit(std::move(request), answer.Callback()).code(); };

  EmbedRequest unknown = TextRequest({"x"});
  unknown.options.model = "no such model";
  const auto unknown_code = refusal(std::move(unknown));
  CHECK(unknown_code == absl::StatusCode::kNotFound);
  CHECK(refusal(ImageRequest({"x"})) == absl::StatusCode::kUnimplemented);
  CHECK(refusal(MakeRequest(RequestKind::kPair, {{"x", "y"}})) == absl::StatusCode::kUnimplemented);
  CHECK(refusal(TextRequest({})) == absl::StatusCode::kInvalidArgument);
  CHECK(refusal(TextRequest({"1", "2", "3", "4", "5"})) == absl::StatusCode::kInvalidArgument);
  EmbedRequest late = TextRequest({"x"});
  late.options.deadline = f.clock.Now();
  const auto late_code = refusal(std::move(late));
  CHECK(late_code == absl::StatusCode::kDeadlineExceeded);
  CHECK(refusal(TextRequest({std::string(101, 'x')})) == absl::StatusCode::kResourceExhausted);
  CHECK(f.observer.rejected[RejectReason::kBytes] == 1);
  f.engine->StopAdmitting();
  CHECK(refusal(TextRequest({"x"})) == absl::StatusCode::kUnavailable);
  CHECK(f.observer.rejected[RejectReason::kDraining] == 1);
  CHECK(answer.completions() == 0);
}

TEST_CASE("A lane that has nothing to do shows its idle time, for want of work, from one snapshot to the next") {
  EngineFixture f;
  auto idle = [&] { return f.engine->Snapshot().lanes[0].idle; };
  const auto before = idle();
  const TimePoint later = f.clock.Now() + milliseconds(5);
  while (f.clock.Now() < later) std::this_thread::yield();
  const auto after = idle();
  CHECK(after[static_cast<size_t>(IdleCause::kNoWork)] - before[static_cast<size_t>(IdleCause::kNoWork)] >=
        milliseconds(5));
  f.Embed(TextRequest({"x"}));
  CHECK(f.engine->Snapshot().lanes[0].busy[static_cast<size_t>(Modality::kText)] > Duration{0});
}

TEST_CASE("Every permit comes back: the limits hold while work is in flight and are free afterwards") {
  EngineOptions options;
  options.admission.max_modality_items[static_cast<size_t>(Modality::kFusion)] = 2;
  EngineFixture f(options);
  f.control->Hold();
  Answer two;
  REQUIRE(f.engine->Submit(MakeRequest(RequestKind::kPair, {{"a", "b"}, {"c", "d"}}), two.Callback()).ok());
  Answer third;
  CHECK(f.engine->Submit(MakeRequest(RequestKind::kPair, {{"e", "f"}}), third.Callback()).code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(f.observer.rejected[RejectReason::kModalityItems] == 1);
  EngineSnapshot busy = f.engine->Snapshot();
  CHECK(busy.requests_in_flight == 1);
  CHECK(busy.items_in_flight == 6);
  CHECK(busy.bytes_in_flight == 4);
  f.control->Release();
  two.Wait();
  f.engine->StopAdmitting();
  REQUIRE(f.engine->WaitUntilIdle(hours(1)));

  const EngineSnapshot idle = f.engine->Snapshot();
  CHECK(idle.requests_in_flight == 0);
  CHECK(idle.items_in_flight == 0);
  CHECK(idle.bytes_in_flight == 0);
  CHECK(idle.prepare_depth_items == 0);
  CHECK(idle.draining);
  for (const QueueSnapshot& queue : idle.queues) CHECK(queue.depth_items == 0);
}

TEST_CASE("Cancelled requests are answered CANCELLED and do not run") {
  EngineFixture f;
  EmbedRequest request = TextRequest({"a", "b", "c"});
  request.cancel = std::make_shared<CancelToken>();
  request.cancel->Cancel();
  const EmbedResponse response = f.Embed(std::move(request));
  for (size_t i = 0; i < 3; ++i) CHECK(CodeOf(response, i) == absl::StatusCode::kCancelled);
  CHECK(f.control->Begun() == 0);
  CHECK(f.observer.Dropped(DropReason::kCancelled) == 3);
}

TEST_CASE("A request cancelled while it waits behind a slow batch never runs") {
  EngineOptions options;
  EngineFixture f(options);
  f.control->Hold();
  Answer running;
  REQUIRE(f.engine->Submit(TextRequest({"running"}), running.Callback()).ok());
  f.control->WaitUntilBegun(1);
  EmbedRequest request = TextRequest({"waiting"});
  auto cancel = std::make_shared<CancelToken>();
  request.cancel = cancel;
  Answer waiting;
  const absl::Status submitted = f.engine->Submit(std::move(request), waiting.Callback());
  REQUIRE(submitted.ok());
  cancel->Cancel();
  f.control->Release();

  // It may already have been staged behind the running batch; if not it must be dropped. Either way one answer.
  const absl::StatusCode code = CodeOf(waiting.Wait(), 0);
  CHECK((code == absl::StatusCode::kCancelled || code == absl::StatusCode::kOk));
  CHECK(f.control->Begun() == (code == absl::StatusCode::kOk ? 2 : 1));
  CHECK(running.Wait().results[0].status.ok());
}

TEST_CASE("Batches are formed as the schedule options say") {
  EngineOptions options;
  BatchOptions& texts = options.schedule.modalities[static_cast<size_t>(Modality::kText)];
  texts.max_items = 2;
  texts.max_wait = hours(1);  // so that a batch leaves when it is full, and no sooner
  EngineFixture f(options);
  for (int i = 0; i < 20; ++i) f.Embed(TextRequest({"one", "two"}));
  CHECK(f.control->BatchSizes(Modality::kText) == std::vector<size_t>(20, 2));
}

TEST_CASE("Bulk requests are answered too") {
  EngineFixture f;
  EmbedRequest request = TextRequest({"bulk"});
  request.options.priority = Priority::kBulk;
  const EmbedResponse answered = f.Embed(std::move(request));
  CHECK(answered.results[0].status.ok());
}

TEST_CASE("Draining finishes what is in flight and admits nothing new") {
  EngineFixture f;
  f.control->Hold();
  Answer answer;
  REQUIRE(f.engine->Submit(TextRequest({"in flight"}), answer.Callback()).ok());
  f.control->WaitUntilBegun(1);
  f.engine->StopAdmitting();
  CHECK_FALSE(f.engine->WaitUntilIdle(Duration{1}));
  CHECK(answer.completions() == 0);

  f.control->Release();
  CHECK(f.engine->WaitUntilIdle(hours(1)));
  CHECK(answer.completions() == 1);
  CHECK(answer.Wait().results[0].status.ok());
}

TEST_CASE("Models are listed with what they really serve, the default first") {
  SteadyClock clock;
  Observer observer;
  FakeParts fakes = MakeFakePipelineParts(&clock);
  FakeModelOptions text_only;
  text_only.info.name = "texts";
  text_only.info.dimensions = 5;
  text_only.info.image = text_only.info.pair = false;
  fakes.parts.models.push_back(MakeFakeModel(text_only, fakes.control));
  auto engine = *CreatePipeline({}, std::move(fakes.parts), &clock, &observer);

  const std::vector<ModelInfo> models = engine->Models();
  REQUIRE(models.size() == 2);
  CHECK(models[0].name == "fake");
  CHECK(models[0].is_default);
  CHECK(models[0].pair);
  CHECK(models[1].name == "texts");
  CHECK_FALSE(models[1].is_default);
  CHECK_FALSE(models[1].image);
  EmbedRequest request = TextRequest({"x"});
  request.options.model = "texts";
  request.options.normalise = false;
  Answer answer;
  const absl::Status submitted = engine->Submit(std::move(request), answer.Callback());
  REQUIRE(submitted.ok());
  CHECK(answer.Wait().model == "texts");
  CHECK(answer.Wait().results[0].text == FakeTextVector("x", 5));
}

TEST_CASE("A pipeline without models is not made") {
  SteadyClock clock;
  Observer observer;
  FakeParts fakes = MakeFakePipelineParts(&clock);
  fakes.parts.models.clear();
  CHECK(CreatePipeline({}, std::move(fakes.parts), &clock, &observer).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
