// One thread's tokenising, text to ids, over real text: English and 19 languages; and the worst a client can send.
// Compare with Hugging Face tokenizers on the same lines: benchmarks/README.md.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engine/prepare/text/text_preparer.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

const TokenizingPreparer& Preparer() {
  static const auto* const preparer = [] {
    auto loaded = LoadTextPreparer(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2", 0);
    if (!loaded.ok()) {
      std::cerr << loaded.status() << "\n";
      std::exit(1);
    }
    return loaded->release();
  }();
  return *preparer;
}

// Real lines; `ascii_only` leaves the English ones and little else.
std::vector<std::string> Lines(bool ascii_only) {
  std::ifstream file(TRIBUTARY_SOURCE_DIR "/tests/golden/tokenizer/corpus.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    bool ascii = true;
    for (const char c : line) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
    if (ascii || !ascii_only) lines.push_back(line);
  }
  return lines;
}

void Run(benchmark::State& state, const TextPreparer& preparer, const std::vector<std::string>& texts) {
  int64_t bytes = 0;
  int64_t tokens = 0;
  size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    const std::string& text = texts[next++ % texts.size()];
    auto sequence = preparer.Prepare({.text = text, .token_ids = {}}, Truncation::kStart);
    bytes += static_cast<int64_t>(text.size());
    tokens += static_cast<int64_t>(sequence->ids.size());
    benchmark::DoNotOptimize(sequence);
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations());
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
}

void BM_Ascii(benchmark::State& state) { Run(state, Preparer(), Lines(true)); }
BENCHMARK(BM_Ascii);

void BM_Multilingual(benchmark::State& state) { Run(state, Preparer(), Lines(false)); }
BENCHMARK(BM_Multilingual);

// 1 MiB each: time must stay linear.
void BM_OneLongWord(benchmark::State& state) { Run(state, Preparer(), {std::string(1 << 20, 'a')}); }
BENCHMARK(BM_OneLongWord);

void BM_HundredLetterWords(benchmark::State& state) {
  std::string text;
  while (text.size() < 1 << 20) text += std::string(99, 'x') + "\u00ff ";
  Run(state, Preparer(), {text});
}
BENCHMARK(BM_HundredLetterWords);

void BM_MarksOutOfOrder(benchmark::State& state) {
  std::string text;
  while (text.size() < 1 << 20) text += "\u302e\u1b44";
  Run(state, Preparer(), {text});
}
BENCHMARK(BM_MarksOutOfOrder);

// The other families, with the small vocabularies of their goldens.
void BM_Family(benchmark::State& state, const std::string& name) {
  const TemporaryFolder folder;
  std::filesystem::copy(TRIBUTARY_SOURCE_DIR "/tests/golden/tokenizer/families/" + name + ".json",
                        folder.path() + "/tokenizer.json");
  folder.Write("sentence_bert_config.json", R"({"max_seq_length": 8192})");
  const auto preparer = LoadTextPreparer(folder.path(), 0);
  if (!preparer.ok()) return state.SkipWithError(preparer.status().ToString().c_str());
  Run(state, **preparer, Lines(false));
}
BENCHMARK_CAPTURE(BM_Family, roberta, "roberta");
BENCHMARK_CAPTURE(BM_Family, clip, "clip");
BENCHMARK_CAPTURE(BM_Family, qwen, "qwen");
BENCHMARK_CAPTURE(BM_Family, gemma, "gemma");
BENCHMARK_CAPTURE(BM_Family, xlm_roberta, "xlm_roberta");
BENCHMARK_CAPTURE(BM_Family, t5, "t5");

void BM_Load(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(LoadTextPreparer(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2", 0));
  }
}
BENCHMARK(BM_Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
