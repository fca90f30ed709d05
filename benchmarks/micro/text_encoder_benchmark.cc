// The default text encoder on one thread, from token ids to vectors, batches filled to the program's own budget.
// Length mixes as in the measurements of other engines: short 20 tokens (16 words), mixed log-normal around 52 (40
// words; mean about 80), long 256. Compare texts/s, and padding = computed / useful tokens.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/text_program.h"

namespace tributary {
namespace {

constexpr size_t kTexts = 256;
constexpr size_t kLongest = 256;  // the model's limit

std::vector<size_t> Lengths(const std::string& mix) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> tokens(std::log(52), 0.9);
  std::vector<size_t> lengths(kTexts);
  for (size_t& length : lengths) {
    if (mix == "short") length = 20;
    if (mix == "long") length = kLongest;
    if (mix == "mixed") length = std::clamp<size_t>(static_cast<size_t>(tokens(random)), 3, kLongest);
  }
  return lengths;
}

std::vector<Batch> Batches(const std::vector<size_t>& lengths, uint64_t budget) {
  std::mt19937 random(2);
  std::vector<Batch> batches(1);
  for (const size_t length : lengths) {
    if (batches.back().useful_units > 0 && batches.back().useful_units + length > budget) batches.emplace_back();
    auto item = std::make_unique<WorkItem>(nullptr);
    TokenSequence sequence;
    for (size_t i = 0; i < length; ++i) sequence.ids.push_back(static_cast<int32_t>(1000 + random() % 20000));
    item->prepared = std::move(sequence);
    batches.back().items.push_back(std::move(item));
    batches.back().useful_units += length;
  }
  return batches;
}

void BM_TextEncoder(benchmark::State& state, const std::string& dtype, const std::string& mix) {
  InitTorchThread();
  const auto folder = ReadTextModelFolder(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2");
  if (!folder.ok()) return state.SkipWithError(std::string(folder.status().message()).c_str());
  const auto loaded = LoadTextProgram(*folder, {.dtype = dtype});
  if (!loaded.ok()) return state.SkipWithError(std::string(loaded.status().message()).c_str());
  const BatchProgram& program = *loaded->program;
  const std::vector<Batch> batches = Batches(Lengths(mix), program.MaxBatchUnits());
  std::vector<std::byte> slot(program.MaxInputBytes());
  std::vector<float> rows(program.MaxBatchItems() * program.OutputDimension());

  size_t next = 0;
  uint64_t texts = 0, useful = 0, computed = 0;
  for ([[maybe_unused]] auto _ : state) {
    const Batch& batch = batches[next++ % batches.size()];
    const auto staged = program.Stage(batch, slot);
    if (!staged.ok() || !program.Run(*staged, slot.data(), reinterpret_cast<std::byte*>(rows.data())).ok()) {
      return state.SkipWithError("a batch failed");
    }
    texts += batch.items.size();
    useful += batch.useful_units;
    computed += staged->computed_units;
  }
  state.counters["texts"] = benchmark::Counter(static_cast<double>(texts), benchmark::Counter::kIsRate);
  state.counters["tokens"] = benchmark::Counter(static_cast<double>(useful), benchmark::Counter::kIsRate);
  state.counters["padding"] = static_cast<double>(computed) / static_cast<double>(useful);
}

BENCHMARK_CAPTURE(BM_TextEncoder, fp32_short, "fp32", "short");
BENCHMARK_CAPTURE(BM_TextEncoder, fp32_mixed, "fp32", "mixed");
BENCHMARK_CAPTURE(BM_TextEncoder, fp32_long, "fp32", "long");
BENCHMARK_CAPTURE(BM_TextEncoder, bf16_short, "bf16", "short");
BENCHMARK_CAPTURE(BM_TextEncoder, bf16_mixed, "bf16", "mixed");
BENCHMARK_CAPTURE(BM_TextEncoder, bf16_long, "bf16", "long");
BENCHMARK_CAPTURE(BM_TextEncoder, int8_short, "int8", "short");
BENCHMARK_CAPTURE(BM_TextEncoder, int8_mixed, "int8", "mixed");
BENCHMARK_CAPTURE(BM_TextEncoder, int8_long, "int8", "long");

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
