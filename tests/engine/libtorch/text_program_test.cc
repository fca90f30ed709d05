#include "engine/libtorch/encode/text_program.h"

#include <algorithm>
#include <random>
#include <string>

#include "engine/libtorch/device/torch_thread.h"
#include "tests/engine/libtorch/plain_bert.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// Odd on purpose: no dimension is a multiple of 16 but one, heads of 12.
BertConfig TinyConfig() {
  return {.hidden_size = 36,
          .layers = 2,
          .heads = 3,
          .intermediate_size = 50,
          .vocabulary_size = 41,
          .max_positions = 48,
          .token_types = 2,
          .layer_norm_eps = 1e-6,
          .hidden_act = "gelu"};
}

std::vector<TokenIds> RandomTexts(size_t count, size_t longest, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenIds> texts(count);
  for (TokenIds& ids : texts) {
    ids.resize(1 + random() % longest);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 41);
  }
  return texts;
}

absl::StatusOr<LoadedTextProgram> Load(const TemporaryFolder& folder, Pooling pooling = Pooling::kMean,
                                       const TextProgramOptions& options = {.dtype = "fp32"}) {
  InitTorchThread();
  auto read = ReadTextModelFolder(folder.path());
  if (!read.ok()) return read.status();
  read->pooling = {pooling};
  return LoadTextProgram(*read, options);
}

void CheckClose(const std::vector<float>& actual, const std::vector<float>& expected) {
  REQUIRE(actual.size() == expected.size());
  // fp32 against double over two layers: rounding alone.
  for (size_t i = 0; i < actual.size(); ++i) CHECK(actual[i] == Approx(expected[i]).margin(2e-5));
}

TEST_CASE("A packed batch gives what a plain computation of each text gives, for every pooling and activation") {
  for (const char* activation : {"gelu", "gelu_new", "relu"}) {
    for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kMax}) {
      CAPTURE(activation, static_cast<int>(pooling));
      BertConfig config = TinyConfig();
      config.hidden_act = activation;
      const PlainBert plain(config, 1);
      const TemporaryFolder folder;
      plain.Write(folder, "");
      const auto loaded = Load(folder, pooling);
      REQUIRE(loaded.ok());

      const auto texts = RandomTexts(9, 48, 2);
      const auto run = RunBatch(*loaded->program, TextBatch(texts));

      REQUIRE(run.ok());
      for (size_t i = 0; i < texts.size(); ++i) CheckClose(run->vectors[i], plain.Embed(texts[i], pooling));
    }
  }
}

TEST_CASE("Weights whose names carry the prefix bert. are the same model") {
  const PlainBert plain(TinyConfig(), 3);
  const TemporaryFolder with, without;
  plain.Write(with, "bert.");
  plain.Write(without, "");
  const auto texts = RandomTexts(4, 20, 4);
  CHECK(RunBatch(*Load(with)->program, TextBatch(texts))->vectors ==
        RunBatch(*Load(without)->program, TextBatch(texts))->vectors);
}

TEST_CASE("Type, revision and number of the parameters are reported") {
  const TemporaryFolder folder;
  PlainBert(TinyConfig(), 5).Write(folder, "");
  const auto loaded = Load(folder);
  REQUIRE(loaded.ok());
  CHECK(loaded->compute_type == ComputeType::kFp32);
  CHECK(loaded->revision.size() == 16);
  // 36*(41+48+2+2) embeddings; two layers of 4*36*36+4*36 attention, 2*36*50+86 inner, 4*36 norms.
  CHECK(loaded->parameter_count == 3348 + 2 * (5184 + 144 + 3600 + 86 + 144));
  CHECK(loaded->parameter_bytes == 4 * loaded->parameter_count);
}

TEST_CASE("A text of every position fits though the budget is smaller, and limits are what was asked for") {
  const PlainBert plain(TinyConfig(), 6);
  const TemporaryFolder folder;
  plain.Write(folder, "");
  const auto loaded = Load(folder, Pooling::kMean, {.dtype = "fp32", .max_batch_tokens = 20, .max_batch_items = 3});
  REQUIRE(loaded.ok());
  CHECK(loaded->program->MaxBatchUnits() == 20);
  CHECK(loaded->program->MaxBatchItems() == 3);
  CHECK(loaded->program->OutputDimension() == 36);

  const TokenIds longest(48, 7);
  const auto run = RunBatch(*loaded->program, TextBatch({longest}));
  REQUIRE(run.ok());
  CHECK(run->computed_units == 48);
  CheckClose(run->vectors[0], plain.Embed(longest, Pooling::kMean));
}

TEST_CASE(
    "Padded to be measured against, a batch computes each text as long as its longest, and the vectors are the same") {
  const TemporaryFolder folder;
  PlainBert(TinyConfig(), 7).Write(folder, "");
  const auto packed = Load(folder);
  const auto padded = Load(folder, Pooling::kMean, {.dtype = "fp32", .pad = true});
  REQUIRE(packed.ok());
  REQUIRE(padded.ok());
  const std::vector<TokenIds> texts = {TokenIds(3, 1), TokenIds(40, 1), TokenIds(1, 1)};

  const auto run = RunBatch(*padded->program, TextBatch(texts));

  REQUIRE(run.ok());
  CHECK(run->computed_units == 128);  // 3 * 40, rounded
  const auto expected = RunBatch(*packed->program, TextBatch(texts));
  for (size_t i = 0; i < texts.size(); ++i) CheckClose(run->vectors[i], expected->vectors[i]);
}

TEST_CASE("Padding is only what rounds the token total up") {
  const TemporaryFolder folder;
  PlainBert(TinyConfig(), 7).Write(folder, "");
  const auto loaded = Load(folder);
  REQUIRE(loaded.ok());
  CHECK(RunBatch(*loaded->program, TextBatch({TokenIds(40, 1), TokenIds(3, 1), TokenIds(1, 1)}))->computed_units == 48);
  CHECK(RunBatch(*loaded->program, TextBatch(std::vector<TokenIds>(128, TokenIds(1, 1))))->computed_units == 128);
}

TEST_CASE("What preparation should have refused fails the batch, not the process") {
  const TemporaryFolder folder;
  PlainBert(TinyConfig(), 8).Write(folder, "");
  const auto loaded = Load(folder);
  REQUIRE(loaded.ok());
  const std::pair<TokenIds, const char*> cases[] = {{TokenIds{}, "a text of 0 tokens"},
                                                    {TokenIds(49, 1), "a text of 49 tokens"},
                                                    {TokenIds{41}, "token id 41"},
                                                    {TokenIds{-1}, "token id -1"}};
  for (const auto& [ids, error] : cases) {
    CAPTURE(error);
    const auto run = RunBatch(*loaded->program, TextBatch({TokenIds{1, 2}, ids}));
    CHECK(run.status().code() == absl::StatusCode::kInternal);
    CHECK_THAT(std::string(run.status().message()), ContainsSubstring(error));
  }
  CHECK_THAT(
      std::string(RunBatch(*loaded->program, TextBatch(std::vector<TokenIds>(30, TokenIds(48, 1)))).status().message()),
      ContainsSubstring("of a slot of"));
  Batch pictures;
  pictures.items.push_back(std::make_unique<WorkItem>(nullptr));
  pictures.items[0]->prepared = PixelBlock{};
  std::vector<std::byte> slot(loaded->program->MaxInputBytes());
  CHECK(loaded->program->Stage(pictures, slot).status().code() == absl::StatusCode::kInternal);
}

TEST_CASE("A model folder that does not fit its weights is refused with file and tensor") {
  const auto error_after = [](const auto& change) {
    PlainBert plain(TinyConfig(), 9);
    const TemporaryFolder folder;
    change(plain, folder);
    auto loaded = Load(folder);
    REQUIRE_FALSE(loaded.ok());
    return std::string(loaded.status().message());
  };
  CHECK_THAT(error_after([](PlainBert& plain, const TemporaryFolder& folder) {
               plain.tensors().erase("encoder.layer.1.output.dense.bias");
               plain.Write(folder, "");
             }),
             ContainsSubstring("model.safetensors: no tensor 'encoder.layer.1.output.dense.bias'"));
  CHECK_THAT(
      error_after([](PlainBert& plain, const TemporaryFolder& folder) {
        plain.tensors()["encoder.layer.0.intermediate.dense.weight"].shape = {36, 50};
        plain.Write(folder, "bert.");
      }),
      ContainsSubstring("'bert.encoder.layer.0.intermediate.dense.weight' has shape [36, 50], expected [50, 36]"));
  CHECK_THAT(error_after([](PlainBert& plain, const TemporaryFolder& folder) {
               plain.Write(folder, "");
               std::filesystem::resize_file(folder.File("model.safetensors"), 20000);
             }),
             ContainsSubstring("lie outside the"));
  CHECK_THAT(error_after([](PlainBert& plain, const TemporaryFolder& folder) {
               plain.Write(folder, "");
               std::filesystem::remove(folder.File("model.safetensors"));
             }),
             ContainsSubstring("holds neither model.safetensors nor"));
}

TEST_CASE("An activation or type that cannot be run is refused by its key") {
  BertConfig config = TinyConfig();
  config.hidden_act = "quick_gelu";
  const TemporaryFolder folder;
  PlainBert(config, 10).Write(folder, "");
  CHECK_THAT(std::string(Load(folder).status().message()), ContainsSubstring("hidden_act must be gelu"));
  CHECK_THAT(std::string(Load(folder, Pooling::kMean, {.dtype = "int3"}).status().message()),
             ContainsSubstring("dtype must be auto, fp32, bf16, fp16 or int8, is 'int3'"));
  CHECK_THAT(std::string(Load(folder, Pooling::kMean, {.dtype = "fp16"}).status().message()),
             ContainsSubstring("fp16 needs a CUDA device"));
}

}  // namespace
}  // namespace tributary
