// Vectors that were refused: run once more on the model's fallback, and only they.
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/vector_check.h"
#include "tests/engine/pipeline/pipeline_test_support.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

using Fallback = FakeModelOptions::Fallback;

// That the vector is what the fake model makes of a text, normalised.
void CheckVectorOf(std::string_view text, const std::vector<float>& got) {
  std::vector<float> expected = FakeTextVector(text, FakeModelOptions{}.info.dimensions);
  const absl::Status normalised = CheckAndNormalise(expected, /*normalise=*/true);
  REQUIRE(normalised.ok());
  CHECK(got == expected);
}

TEST_CASE("An input whose vector was bad is run once more on the fallback, alone, and answered with what that gives") {
  const std::string bad(GENERATE(fake::kNotANumber, fake::kZeroVector));
  const bool image = GENERATE(false, true);
  CAPTURE(bad, image);
  EngineFixture f({}, {.fallback = Fallback::kGood});
  const Modality modality = image ? Modality::kImage : Modality::kText;
  std::vector<std::string> inputs(8, "good");
  inputs[5] = bad;

  const EmbedResponse response = f.Embed(image ? ImageRequest(inputs) : TextRequest(inputs));

  for (size_t i = 0; i < 8; ++i) CHECK(CodeOf(response, i) == absl::StatusCode::kOk);
  if (!image) {
    CheckVectorOf(bad, response.results[5].text);
    CHECK(response.results[5].token_count == bad.size());
  }
  const std::vector<size_t> batches = f.control->BatchSizes(modality);
  CHECK(std::accumulate(batches.begin(), batches.end(), size_t{0}) == 9);  // each once, and that one again
  CHECK(f.observer.bad_vectors == std::map<Modality, size_t>{{modality, 1}});
  CHECK(f.observer.good_retries == std::map<Modality, size_t>{{modality, 1}});
  CHECK(f.observer.bad_retries.empty());
  CHECK(f.observer.Items(modality) == 8);
}

TEST_CASE("An input that is bad on the fallback too is an error after that one try") {
  EngineFixture f({}, {.fallback = Fallback::kBad});

  const EmbedResponse response = f.Embed(TextRequest({"good", std::string(fake::kNotANumber)}));

  CHECK(CodeOf(response, 0) == absl::StatusCode::kOk);
  CHECK(CodeOf(response, 1) == absl::StatusCode::kInternal);
  CHECK(f.observer.bad_vectors[Modality::kText] == 2);
  CHECK(f.observer.bad_retries[Modality::kText] == 1);
  CHECK(f.observer.good_retries.empty());
}

TEST_CASE("A batch that failed as a whole is not run again") {
  EngineFixture f({}, {.fallback = Fallback::kGood});

  CHECK(CodeOf(f.Embed(TextRequest({std::string(fake::kRunFails)})), 0) == absl::StatusCode::kInternal);

  CHECK(f.control->Begun() == 1);
  CHECK(f.observer.good_retries.empty());
  CHECK(f.observer.bad_retries.empty());
}

TEST_CASE("A part of a pair is run once more before the parts are joined") {
  EngineFixture f({}, {.fallback = Fallback::kGood});

  const EmbedResponse response =
      f.Embed(MakeRequest(RequestKind::kPair, {{std::string(fake::kNotANumber), "a photo"}}));

  REQUIRE(CodeOf(response, 0) == absl::StatusCode::kOk);
  CheckVectorOf(fake::kNotANumber, response.results[0].text);
  CHECK_FALSE(response.results[0].fused.empty());
  CHECK(f.observer.good_retries == std::map<Modality, size_t>{{Modality::kText, 1}});
}

}  // namespace
}  // namespace tributary
