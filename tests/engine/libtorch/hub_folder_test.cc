#include "engine/libtorch/weights/hub_folder.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

constexpr char kConfig[] =
    R"({"model_type":"bert","hidden_size":12,"num_hidden_layers":2,"num_attention_heads":3,"intermediate_size":20,)"
    R"("vocab_size":30,"max_position_embeddings":64,"type_vocab_size":2,"layer_norm_eps":1e-6,"hidden_act":"gelu"})";
constexpr char kModules[] = R"([{"type":"sentence_transformers.models.Transformer","path":""},)"
                            R"({"type":"sentence_transformers.models.Pooling","path":"1_Pooling"},)"
                            R"({"type":"sentence_transformers.models.Normalize","path":"2_Normalize"}])";

std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("The default model's folder is read as sentence-transformers reads it") {
  const auto folder = ReadTextModelFolder(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2");
  REQUIRE(folder.ok());
  CHECK(folder->bert.hidden_size == 384);
  CHECK(folder->bert.layers == 6);
  CHECK(folder->bert.heads == 12);
  CHECK(folder->bert.intermediate_size == 1536);
  CHECK(folder->bert.vocabulary_size == 30522);
  CHECK(folder->bert.max_positions == 512);
  CHECK(folder->bert.layer_norm_eps == 1e-12);
  CHECK(folder->pooling == Pooling::kMean);
  CHECK(folder->normalise);
}

TEST_CASE("A folder without modules.json is a transformer with mean pooling, not normalised") {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  const auto read = ReadTextModelFolder(folder.path());
  REQUIRE(read.ok());
  CHECK(read->transformer_folder == folder.path());
  CHECK(read->pooling == Pooling::kMean);
  CHECK_FALSE(read->normalise);
  CHECK(read->bert.layer_norm_eps == 1e-6);
}

TEST_CASE("modules.json places the transformer and the pooling") {
  const TemporaryFolder folder;
  folder.Write("modules.json", With(kModules, R"("path":"")", R"("path":"0_Transformer")"));
  folder.Write("0_Transformer/config.json", kConfig);
  folder.Write("1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})");
  const auto read = ReadTextModelFolder(folder.path());
  REQUIRE(read.ok());
  CHECK(read->transformer_folder == folder.File("0_Transformer"));
  CHECK(read->pooling == Pooling::kCls);
  CHECK(read->normalise);
}

TEST_CASE("Each pooling mode is read in its old and its new spelling") {
  const std::pair<const char*, Pooling> cases[] = {
      {R"({"pooling_mode_mean_tokens":true})", Pooling::kMean}, {R"({"pooling_mode":"mean"})", Pooling::kMean},
      {R"({"pooling_mode_cls_token":true})", Pooling::kCls},    {R"({"pooling_mode":"cls"})", Pooling::kCls},
      {R"({"pooling_mode_max_tokens":true})", Pooling::kMax},   {R"({"pooling_mode":"max"})", Pooling::kMax},
  };
  const TemporaryFolder folder;
  folder.Write("modules.json", kModules);
  folder.Write("config.json", kConfig);
  for (const auto& [config, pooling] : cases) {
    CAPTURE(config);
    folder.Write("1_Pooling/config.json", config);
    const auto read = ReadTextModelFolder(folder.path());
    REQUIRE(read.ok());
    CHECK(read->pooling == pooling);
  }
}

TEST_CASE("What would be run differently from the reference is refused with file and key") {
  struct Case {
    const char* file;
    std::string content;
    const char* error;
  };
  const Case cases[] = {
      {"config.json", With(kConfig, R"("bert")", R"("gpt2")"), "config.json: model_type must be bert, is 'gpt2'"},
      {"config.json", With(kConfig, R"("hidden_size":12,)", ""), "config.json: hidden_size is missing"},
      {"config.json", With(kConfig, R"("hidden_size":12)", R"("hidden_size":-12)"),
       "hidden_size must be a whole number"},
      {"config.json", With(kConfig, R"("hidden_size":12)", R"("hidden_size":"12")"),
       "hidden_size must be a whole number"},
      {"config.json", With(kConfig, R"("vocab_size":30)", R"("vocab_size":99999999999)"), "vocab_size must be a whole"},
      {"config.json", With(kConfig, R"("num_attention_heads":3)", R"("num_attention_heads":5)"),
       "num_attention_heads 5 does not divide hidden_size 12"},
      {"config.json", With(kConfig, "{", R"({"position_embedding_type":"relative_key",)"), "position_embedding_type"},
      {"config.json", With(kConfig, "{", R"({"is_decoder":true,)"), "is_decoder"},
      {"config.json", With(kConfig, "1e-6", R"("small")"), "layer_norm_eps must be a number"},
      {"config.json", "{", "config.json is not valid JSON"},
      {"config.json", "[]", "config.json: model_type"},
      {"modules.json", "{}", "modules.json: must be an array"},
      {"modules.json", "[{}]", "a module without type or path"},
      {"modules.json", With(kModules, ".Normalize", ".Dense"), "Dense is not supported"},
      {"modules.json", With(kModules, "1_Pooling", "../1_Pooling"), "leads out of the folder"},
      {"1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})", "more than one"},
      {"1_Pooling/config.json", R"({"pooling_mode_lasttoken":true})", "'lasttoken' is not supported"},
      {"1_Pooling/config.json", "{}", "pooling mode '' is not supported"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.file, wrong.content);
    const TemporaryFolder folder;
    folder.Write("config.json", kConfig);
    folder.Write("modules.json", kModules);
    folder.Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
    REQUIRE(ReadTextModelFolder(folder.path()).ok());
    folder.Write(wrong.file, wrong.content);
    const auto read = ReadTextModelFolder(folder.path());
    REQUIRE_FALSE(read.ok());
    CHECK(read.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(read.status().message()), ContainsSubstring(wrong.error));
  }
}

TEST_CASE("A folder that is not there is NOT_FOUND with its path") {
  const auto read = ReadTextModelFolder("/nonexistent/model");
  CHECK(read.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(read.status().message()), ContainsSubstring("/nonexistent/model/config.json"));
}

}  // namespace
}  // namespace tributary
