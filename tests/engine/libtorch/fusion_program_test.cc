#include "engine/libtorch/fuse/fusion_program.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

constexpr uint32_t kDimension = 7;

std::unique_ptr<BatchProgram> Program(const std::string& kind, double text_weight = 0.5) {
  FusionProgramOptions options{.fusion = {.kind = kind, .text_weight = text_weight}};
  options.dimension = kDimension;
  options.max_batch_items = 16;
  auto program = MakeFusionProgram(options);
  REQUIRE(program.ok());
  return *std::move(program);
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

absl::StatusOr<std::vector<std::vector<float>>> Run(const BatchProgram& program, const std::vector<FusionParts>& pairs,
                                                    size_t slot_bytes) {
  Batch batch;
  for (const FusionParts& pair : pairs) {
    batch.items.push_back(std::make_unique<WorkItem>(nullptr));
    batch.items.back()->prepared = pair;
  }
  // What an earlier batch may have left behind.
  std::vector<float> slot(slot_bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  auto staged = program.Stage(batch, std::as_writable_bytes(std::span(slot)));
  if (!staged.ok()) return staged.status();
  CHECK(staged->computed_units == pairs.size());
  std::vector<float> rows(pairs.size() * kDimension);
  if (auto status = program.Run(*staged, reinterpret_cast<const std::byte*>(slot.data()),
                                reinterpret_cast<std::byte*>(rows.data()));
      !status.ok()) {
    return status;
  }
  std::vector<std::vector<float>> fused;
  for (size_t i = 0; i < pairs.size(); ++i) {
    fused.emplace_back(rows.begin() + i * kDimension, rows.begin() + (i + 1) * kDimension);
  }
  return fused;
}

TEST_CASE("The weighted mean of a batch equals the plain one, and a lone part comes out as it is") {
  const auto pairs = RandomPairs(9);
  for (const double text_weight : {0.5, 0.25, 0.0, 1.0}) {
    const auto program = Program("weighted_mean", text_weight);
    const auto fused = Run(*program, pairs, program->MaxInputBytes());
    REQUIRE(fused.ok());
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto& [text, image] = pairs[i].parts;
      for (uint32_t d = 0; d < kDimension; ++d) {
        const double expected = image.empty()  ? text[d]
                                : text.empty() ? image[d]
                                               : text_weight * text[d] + (1 - text_weight) * image[d];
        CAPTURE(text_weight, i, d);
        CHECK((*fused)[i][d] == Approx(expected).margin(1e-6));
      }
    }
  }
}

TEST_CASE("The Hadamard product of a batch equals the plain one, and a lone part comes out as it is") {
  const auto pairs = RandomPairs(9);
  const auto program = Program("hadamard");
  const auto fused = Run(*program, pairs, program->MaxInputBytes());
  REQUIRE(fused.ok());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [text, image] = pairs[i].parts;
    for (uint32_t d = 0; d < kDimension; ++d) {
      const double expected = (text.empty() ? 1.0 : text[d]) * (image.empty() ? 1.0 : image[d]);
      CAPTURE(i, d);
      CHECK((*fused)[i][d] == Approx(expected).margin(1e-6));
    }
  }
}

TEST_CASE("A full batch fits the slot, a larger one or a part of another size is refused") {
  const auto program = Program("weighted_mean");
  CHECK(program->MaxBatchItems() == 16);
  CHECK(program->MaxBatchUnits() == 16);
  CHECK(program->OutputDimension() == kDimension);
  CHECK(Run(*program, RandomPairs(16), program->MaxInputBytes()).ok());
  CHECK(Run(*program, RandomPairs(17), program->MaxInputBytes()).status().code() == absl::StatusCode::kInternal);

  auto pairs = RandomPairs(1);
  pairs[0].parts[0].push_back(1);
  CHECK_THAT(std::string(Run(*program, pairs, program->MaxInputBytes()).status().message()),
             ContainsSubstring("a part of 8 dimensions; fusion takes 7"));
}

TEST_CASE("An unknown fusion is refused by its key") {
  FusionProgramOptions options;
  options.fusion.kind = "concatenate";
  CHECK_THAT(std::string(MakeFusionProgram(options).status().message()),
             ContainsSubstring("fusion.kind must be weighted_mean or hadamard, is 'concatenate'"));
}

}  // namespace
}  // namespace tributary
