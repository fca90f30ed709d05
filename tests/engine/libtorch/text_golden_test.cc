// The default text model against sentence-transformers on the same weights.
#include <random>
#include <string>

#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/text_program.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/engine/libtorch/text_goldens.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

absl::StatusOr<LoadedTextProgram> LoadMiniLm(const char* dtype) {
  InitTorchThread();
  auto folder = ReadTextModelFolder(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2");
  if (!folder.ok()) return folder.status();
  return LoadTextProgram(*folder, {.dtype = dtype});
}

// Batches as the scheduler would form them, within the program's budget, in the goldens' own mixed order.
void CheckAgainstGoldens(const BatchProgram& program, double least_cosine) {
  const auto goldens = LoadTextGoldens();
  REQUIRE(goldens.size() >= 200);
  for (size_t first = 0; first < goldens.size();) {
    std::vector<TokenIds> texts;
    uint64_t tokens = 0;
    while (first + texts.size() < goldens.size()) {
      const auto& ids = goldens[first + texts.size()].ids;
      if (!texts.empty() && tokens + ids.size() > program.MaxBatchUnits()) break;
      tokens += ids.size();
      texts.push_back(ids);
    }
    const auto run = RunBatch(program, TextBatch(texts));
    REQUIRE(run.ok());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(goldens[first + i].name);
      CHECK(Cosine(run->vectors[i], goldens[first + i].vector) >= least_cosine);
    }
    first += texts.size();
  }
}

TEST_CASE("MiniLM in fp32 equals sentence-transformers to a cosine of 0.9999") {
  const auto loaded = LoadMiniLm("fp32");
  REQUIRE(loaded.ok());
  CHECK(loaded->parameter_count > 22'000'000);
  CheckAgainstGoldens(*loaded->program, 0.9999);
}

TEST_CASE("MiniLM in bf16 equals sentence-transformers to a cosine of 0.999") {
  const auto loaded = LoadMiniLm("bf16");
  if (!loaded.ok()) {  // a processor without any bf16 products says so
    CHECK_THAT(std::string(loaded.status().message()), ContainsSubstring("needs a processor with"));
    return;
  }
  CHECK(loaded->compute_type == ComputeType::kBf16);
  CheckAgainstGoldens(*loaded->program, 0.999);
}

TEST_CASE("MiniLM in int8 equals sentence-transformers to a cosine of 0.99") {
  const auto exact = LoadMiniLm("fp32");
  const auto loaded = LoadMiniLm("int8");
  REQUIRE(exact.ok());
  REQUIRE(loaded.ok());
  CHECK(loaded->compute_type == ComputeType::kInt8);
  CHECK(loaded->parameter_count == exact->parameter_count);
  // Six layers' linear weights, a byte instead of four each, and a scale for each of their outputs.
  constexpr uint64_t kLayerWeights = 4 * 384 * 384 + 2 * 384 * 1536;
  constexpr uint64_t kLayerOutputs = 4 * 384 + 384 + 1536;
  CHECK(exact->parameter_bytes - loaded->parameter_bytes == 6 * (3 * kLayerWeights - 4 * kLayerOutputs));
  CheckAgainstGoldens(*loaded->program, 0.99);
}

TEST_CASE("A text alone and in a batch of 64 mixed lengths gives the same vector to 0.9999") {
  InitTorchThread();
  auto folder = ReadTextModelFolder(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2");
  REQUIRE(folder.ok());
  const auto loaded = LoadTextProgram(*folder, {.dtype = "fp32", .max_batch_tokens = 2048});
  REQUIRE(loaded.ok());
  const auto goldens = LoadTextGoldens();
  std::mt19937 random(11);
  std::vector<TokenIds> texts;
  size_t tokens = 0;
  while (texts.size() < 64) {
    const TokenIds& ids = goldens[random() % goldens.size()].ids;
    if (tokens + ids.size() + 5 * (63 - texts.size()) > 2048) continue;  // the rest still fits: some have 5 tokens
    tokens += ids.size();
    texts.push_back(ids);
  }

  const auto together = RunBatch(*loaded->program, TextBatch(texts));

  REQUIRE(together.ok());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto alone = RunBatch(*loaded->program, TextBatch({texts[i]}));
    REQUIRE(alone.ok());
    CAPTURE(i, texts[i].size());
    CHECK(Cosine(alone->vectors[0], together->vectors[i]) >= 0.9999);
  }
}

}  // namespace
}  // namespace tributary
