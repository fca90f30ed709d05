// Images, one thread: from a 640 x 480 JPEG to pixels, and from pixels to vectors.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/prepare/image/image_preparer.h"
#ifdef TRIBUTARY_WITH_TORCH
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/image_program.h"
#endif

namespace tributary {
namespace {

std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::string(TRIBUTARY_SOURCE_DIR) + "/tests/golden/image/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Decode, crop and resize of one picture.
void BM_Prepare(benchmark::State& state, const std::string& name) {
  const std::string file = ReadGolden(name);
  const auto preparer = MakeImagePreparer({}, InputLimits{});
  ImageInput input;
  input.encoded = file;
  for ([[maybe_unused]] auto _ : state) {
    auto block = preparer->Prepare(input);
    if (!block.ok()) state.SkipWithError(std::string(block.status().message()).c_str());
    benchmark::DoNotOptimize(block);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(BM_Prepare, jpeg_640x480, "benchmark_640x480.jpg")->Unit(benchmark::kMillisecond);

// Crop and resize only: the same picture's size as raw RGB.
void BM_PrepareRaw(benchmark::State& state) {
  std::string rows(size_t{640} * 480 * 3, '\0');
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<char>(i * 2654435761U >> 24);
  const auto preparer = MakeImagePreparer({}, InputLimits{});
  ImageInput input;
  input.raw_rgb = ImageInput::RawRgb{rows, 640, 480};
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(preparer->Prepare(input));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_PrepareRaw)->Unit(benchmark::kMillisecond);

#ifdef TRIBUTARY_WITH_TORCH
void BM_Encode(benchmark::State& state, const std::string& dtype) {
  InitTorchThread();
  LabelVectors labels{.values = std::vector<float>(size_t{1000} * 384, 0.05F), .classes = 1000, .dimension = 384};
  const auto batch = static_cast<size_t>(state.range(0));
  const auto loaded = LoadImageProgram(TRIBUTARY_DEPS_DIR "/models/efficientnet-lite0", {},
                                       {.dtype = dtype, .max_batch_items = batch}, &labels);
  if (!loaded.ok()) {
    state.SkipWithError(std::string(loaded.status().message()).c_str());
    return;
  }
  StagedBatch staged;
  staged.batch_size = batch;
  const std::vector<std::byte> input(loaded->program->MaxInputBytes(), std::byte{100});
  std::vector<float> rows(batch * 384);
  for ([[maybe_unused]] auto _ : state) {
    if (!loaded->program->Run(staged, input.data(), reinterpret_cast<std::byte*>(rows.data())).ok()) {
      state.SkipWithError("the program failed");
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(BM_Encode, fp32, "fp32")->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, bf16, "bf16")->Arg(1)->Arg(4)->Unit(benchmark::kMillisecond);
#endif

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
