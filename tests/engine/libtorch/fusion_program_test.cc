#include "engine/libtorch/fuse/fusion_program.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/libtorch/fusion_batch.h"
#include "tests/engine/libtorch/run_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

constexpr uint32_t kDimension = 7;

std::unique_ptr<BatchProgram> Program(const std::string& kind, double text_weight = 0.5) {
  FusionProgramOptions options{.fusion = {.kind = kind, .text_weight = text_weight, .folder = {}}};
  options.dimension = kDimension;
  options.max_batch_items = 16;
  auto loaded = LoadFusionProgram(options);
  REQUIRE(loaded.ok());
  CHECK(loaded->parameter_count == 0);
  CHECK(loaded->revision.empty());
  return std::move(loaded->program);
}

// Pairs of random parts; which of them are there cycles through both, text only, image only.
std::vector<FusionParts> RandomPairs(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<FusionParts> pairs(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t part = 0; part < 2; ++part) {
      if (i % 3 == 2 - part) continue;
      for (uint32_t d = 0; d < kDimension; ++d) pairs[i].parts[part].push_back(normal(random));
    }
  }
  return pairs;
}

TEST_CASE("The weighted mean of a batch equals the plain one, and a lone part comes out as it is") {
  const auto pairs = RandomPairs(9);
  for (const double text_weight : {0.5, 0.25, 0.0, 1.0}) {
    const auto program = Program("weighted_mean", text_weight);
    const auto fused = RunBatch(*program, FusionBatch(pairs));
    REQUIRE(fused.ok());
    CHECK(fused->computed_units == pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto& [text, image] = pairs[i].parts;
      for (uint32_t d = 0; d < kDimension; ++d) {
        const double expected = image.empty()  ? text[d]
                                : text.empty() ? image[d]
                                               : text_weight * text[d] + (1 - text_weight) * image[d];
        CAPTURE(text_weight, i, d);
        CHECK(fused->vectors[i][d] == Approx(expected).margin(1e-6));
      }
    }
  }
}

TEST_CASE("The Hadamard product of a batch equals the plain one, and a lone part comes out as it is") {
  const auto pairs = RandomPairs(9);
  const auto program = Program("hadamard");
  const auto fused = RunBatch(*program, FusionBatch(pairs));
  REQUIRE(fused.ok());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [text, image] = pairs[i].parts;
    for (uint32_t d = 0; d < kDimension; ++d) {
      const double expected = (text.empty() ? 1.0 : text[d]) * (image.empty() ? 1.0 : image[d]);
      CAPTURE(i, d);
      CHECK(fused->vectors[i][d] == Approx(expected).margin(1e-6));
    }
  }
}

TEST_CASE("A full batch fits the slot, a larger one or a part of another size is refused") {
  const auto program = Program("weighted_mean");
  CHECK(program->MaxBatchItems() == 16);
  CHECK(program->MaxBatchUnits() == 16);
  CHECK(program->OutputDimension() == kDimension);
  CHECK(RunBatch(*program, FusionBatch(RandomPairs(16))).ok());
  CHECK(RunBatch(*program, FusionBatch(RandomPairs(17))).status().code() == absl::StatusCode::kInternal);

  auto pairs = RandomPairs(1);
  pairs[0].parts[0].push_back(1);
  CHECK_THAT(std::string(RunBatch(*program, FusionBatch(pairs)).status().message()),
             ContainsSubstring("a part of 8 dimensions; fusion takes 7"));
}

TEST_CASE("An unknown fusion is refused by its key") {
  FusionProgramOptions options;
  options.fusion.kind = "concatenate";
  CHECK_THAT(std::string(LoadFusionProgram(options).status().message()),
             ContainsSubstring("fusion.kind must be weighted_mean, hadamard, concat_projection, gated or "
                               "cross_attention, is 'concatenate'"));
}

}  // namespace
}  // namespace tributary
