// One linear layer with its bias on one thread, as encoders run it: MiniLM's shapes (in x out: 384 x 384, 384 x 1152,
// 384 x 1536, 1536 x 384) and BERT-base's, by rows, in every type; PyTorch's own dynamic int8 beside ours; our int8
// by every path. Compare ops (a multiplication and an addition are two). On a machine that others use, let cases take
// turns: --benchmark_enable_random_interleaving=true --benchmark_repetitions=7. ONEDNN_VERBOSE=1 tells which of its
// implementations ran.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/kernels/int8_weight.h"

namespace tributary {
namespace {

// There are many cases, of microseconds each.
constexpr double kSeconds = 0.02;

void Report(benchmark::State& state) {
  const double products =
      static_cast<double>(state.range(0)) * static_cast<double>(state.range(1)) * static_cast<double>(state.range(2));
  state.counters["ops"] = benchmark::Counter(2 * products, benchmark::Counter::kIsIterationInvariantRate);
}

struct Layer {
  at::Tensor x;       // [rows, in]
  at::Tensor weight;  // [out, in]
  at::Tensor bias;
};

Layer RandomLayer(const benchmark::State& state) {
  return {.x = at::randn({state.range(0), state.range(1)}),
          .weight = at::randn({state.range(2), state.range(1)}),
          .bias = at::randn({state.range(2)})};
}

void BM_Linear(benchmark::State& state, ComputeType type) {
  InitTorchThread();
  const c10::InferenceMode inference;
  const Layer layer = RandomLayer(state);
  const Linear linear(layer.weight, layer.bias, type, {});
  const at::Tensor x = type == ComputeType::kBf16 ? layer.x.to(at::kBFloat16) : layer.x;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(linear.Forward(x));
  Report(state);
}

void BM_LinearGelu(benchmark::State& state, ComputeType type) {
  InitTorchThread();
  const c10::InferenceMode inference;
  const Layer layer = RandomLayer(state);
  const Linear linear(layer.weight, layer.bias, type, {});
  const at::Tensor x = type == ComputeType::kBf16 ? layer.x.to(at::kBFloat16) : layer.x;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(linear.Forward(x, Activation::kGelu));
  Report(state);
}

// Ours, by a path that need not be the fastest.
void BM_Int8Path(benchmark::State& state, Int8Path path) {
  const Layer layer = RandomLayer(state);
  const auto rows = static_cast<size_t>(state.range(0));
  const auto out = static_cast<size_t>(state.range(2));
  const Int8Weight weight(layer.weight.const_data_ptr<float>(), layer.bias.const_data_ptr<float>(), out,
                          static_cast<size_t>(state.range(1)));
  std::vector<float> y(rows * out);
  for ([[maybe_unused]] auto _ : state) {
    weight.Multiply(layer.x.const_data_ptr<float>(), rows, y.data(), {}, path);
    benchmark::ClobberMemory();
  }
  Report(state);
}

std::vector<c10::IValue> Call(const char* name, std::vector<c10::IValue> arguments) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&arguments);
  return arguments;
}

// One activation scale a batch, where ours is one a row.
void BM_TorchInt8(benchmark::State& state) {
  InitTorchThread();
  const c10::InferenceMode inference;
  const Layer layer = RandomLayer(state);
  const at::Tensor scales = layer.weight.abs().amax(1).div(127).to(at::kDouble);
  const at::Tensor weight = at::quantize_per_channel(layer.weight, scales, at::zeros({state.range(2)}, at::kLong),
                                                     /*axis=*/0, at::kQInt8);
  const c10::IValue packed = Call("quantized::linear_prepack", {weight, layer.bias})[0];
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(Call("quantized::linear_dynamic", {layer.x, packed, false}));
  }
  Report(state);
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "in", "out"})->MinTime(kSeconds);
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
           {384, 384}, {384, 1152}, {384, 1536}, {1536, 384}, {768, 768}, {768, 3072}, {3072, 768}}) {
    for (const int64_t rows : {1, 16, 32, 128, 512}) benchmark->Args({rows, in, out});
  }
}

void Up(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "in", "out"})->MinTime(kSeconds);
  for (const int64_t rows : {16, 128, 512}) benchmark->Args({rows, 384, 1536});
}

BENCHMARK_CAPTURE(BM_Linear, fp32, ComputeType::kFp32)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, bf16, ComputeType::kBf16)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, int8, ComputeType::kInt8)->Apply(Shapes);
BENCHMARK(BM_TorchInt8)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_LinearGelu, fp32, ComputeType::kFp32)->Apply(Up);
BENCHMARK_CAPTURE(BM_LinearGelu, bf16, ComputeType::kBf16)->Apply(Up);
BENCHMARK_CAPTURE(BM_LinearGelu, int8, ComputeType::kInt8)->Apply(Up);

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  for (const tributary::Int8Path path : tributary::Int8Paths()) {
    const std::string name = "BM_Int8Path/" + std::string(tributary::Int8PathName(path));
    tributary::Up(benchmark::RegisterBenchmark(name.c_str(), tributary::BM_Int8Path, path));
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
