#include "engine/libtorch/weights/hub_folder.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

constexpr char kModules[] = R"([{"type":"sentence_transformers.models.Transformer","path":""},)"
                            R"({"type":"sentence_transformers.models.Pooling","path":"1_Pooling"},)"
                            R"({"type":"sentence_transformers.models.Normalize","path":"2_Normalize"}])";

std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("The default model's folder is read as sentence-transformers reads it") {
  const std::string path = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";
  const auto folder = ReadTextModelFolder(path);
  REQUIRE(folder.ok());
  CHECK(folder->transformer_folder == path);
  CHECK(folder->pooling == std::vector{Pooling::kMean});
  CHECK(folder->pooled_size == 384);
  CHECK(folder->dense.empty());
  CHECK(folder->normalise);
  CHECK(folder->max_seq_length == 256);
  CHECK(folder->prompts.empty());
  CHECK(folder->default_prompt.empty());
}

TEST_CASE("A folder without modules.json is a transformer with mean pooling, not normalised") {
  const TemporaryFolder folder;
  folder.Write("config.json", "{}");
  const auto read = ReadTextModelFolder(folder.path());
  REQUIRE(read.ok());
  CHECK(read->transformer_folder == folder.path());
  CHECK(read->pooling == std::vector{Pooling::kMean});
  CHECK_FALSE(read->normalise);
  CHECK(read->max_seq_length == std::nullopt);
}

TEST_CASE("modules.json places the transformer and the pooling") {
  const TemporaryFolder folder;
  folder.Write("modules.json", With(kModules, R"("path":"")", R"("path":"0_Transformer")"));
  folder.Write("0_Transformer/config.json", "{}");
  folder.Write("0_Transformer/sentence_bert_config.json", R"({"max_seq_length":77})");
  folder.Write("1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})");
  const auto read = ReadTextModelFolder(folder.path());
  REQUIRE(read.ok());
  CHECK(read->transformer_folder == folder.File("0_Transformer"));
  CHECK(read->pooling == std::vector{Pooling::kCls});
  CHECK(read->normalise);
  CHECK(read->max_seq_length == 77);
}

TEST_CASE("Each pooling mode is read in its old and its new spelling, several in the order the reference joins them") {
  using enum Pooling;
  const std::pair<const char*, std::vector<Pooling>> cases[] = {
      {R"({"pooling_mode_mean_tokens":true})", {kMean}},
      {R"({"pooling_mode":"mean"})", {kMean}},
      {R"({"pooling_mode_cls_token":true})", {kCls}},
      {R"({"pooling_mode":"cls"})", {kCls}},
      {R"({"pooling_mode_max_tokens":true})", {kMax}},
      {R"({"pooling_mode":"max"})", {kMax}},
      {R"({"pooling_mode_mean_sqrt_len_tokens":true})", {kMeanSqrtLen}},
      {R"({"pooling_mode":"mean_sqrt_len_tokens"})", {kMeanSqrtLen}},
      {R"({"pooling_mode_weightedmean_tokens":true})", {kWeightedMean}},
      {R"({"pooling_mode":"weightedmean"})", {kWeightedMean}},
      {R"({"pooling_mode_lasttoken":true})", {kLastToken}},
      {R"({"pooling_mode":"lasttoken"})", {kLastToken}},
      {R"({"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":false})", {kMean}},
      {R"({"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":true,"pooling_mode_cls_token":true})",
       {kCls, kMax, kMean}},
      {R"({"pooling_mode":["mean","cls"],"pooling_mode_max_tokens":true})", {kMean, kCls}},
  };
  const TemporaryFolder folder;
  folder.Write("modules.json", kModules);
  folder.Write("config.json", "{}");
  for (const auto& [config, poolings] : cases) {
    CAPTURE(config);
    folder.Write("1_Pooling/config.json", config);
    const auto read = ReadTextModelFolder(folder.path());
    REQUIRE(read.ok());
    CHECK(read->pooling == poolings);
  }
}

TEST_CASE("Dense modules are read in their order, with sizes, bias and activation") {
  const TemporaryFolder folder;
  folder.Write("config.json", "{}");
  folder.Write("modules.json", R"([{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":"1"},)"
                               R"({"type":"a.Dense","path":"2"},{"type":"a.Dropout","path":"3"},)"
                               R"({"type":"a.Dense","path":"4"}])");
  folder.Write("1/config.json", R"({"pooling_mode":"mean","embedding_dimension":8})");
  folder.Write("2/config.json", R"({"in_features":8,"out_features":12})");
  folder.Write("4/config.json", R"({"in_features":12,"out_features":4,"bias":false,)"
                                R"("activation_function":"torch.nn.modules.linear.Identity"})");
  const auto read = ReadTextModelFolder(folder.path());
  REQUIRE(read.ok());
  CHECK(read->pooled_size == 8);
  CHECK_FALSE(read->normalise);
  REQUIRE(read->dense.size() == 2);
  CHECK(read->dense[0].folder == folder.File("2"));
  CHECK(read->dense[0].in_features == 8);
  CHECK(read->dense[0].out_features == 12);
  CHECK(read->dense[0].bias);
  CHECK(read->dense[0].activation == DenseModule::Activation::kTanh);
  CHECK(read->dense[1].out_features == 4);
  CHECK_FALSE(read->dense[1].bias);
  CHECK(read->dense[1].activation == DenseModule::Activation::kIdentity);
}

TEST_CASE("Prompts and the default one's name are part of the description") {
  const TemporaryFolder folder;
  folder.Write("config.json", "{}");
  folder.Write("config_sentence_transformers.json",
               R"({"prompts":{"query":"search: ","document":"","none":null},"default_prompt_name":"query"})");
  const auto read = ReadTextModelFolder(folder.path());
  REQUIRE(read.ok());
  CHECK(read->prompts == std::map<std::string, std::string>{{"document", ""}, {"query", "search: "}});
  CHECK(read->default_prompt == "query");
}

TEST_CASE("Shorter sizes are read where config.json lists them") {
  const TemporaryFolder folder;
  folder.Write("config.json", "{}");
  CHECK(ReadTextModelFolder(folder.path())->matryoshka_dimensions.empty());
  folder.Write("config.json", R"({"matryoshka_dimensions":[32,64,1024]})");
  CHECK(ReadTextModelFolder(folder.path())->matryoshka_dimensions == std::vector<int64_t>{32, 64, 1024});
}

TEST_CASE("What would be run differently from the reference is refused with file and key") {
  struct Case {
    const char* file;
    std::string content;
    const char* error;
  };
  constexpr char kDense[] = R"({"in_features":8,"out_features":12})";
  const Case cases[] = {
      {"modules.json", "{", "modules.json is not valid JSON"},
      {"modules.json", "{}", "modules.json: must be an array"},
      {"modules.json", "[]", "modules.json: no Transformer module"},
      {"modules.json", "[{}]", "modules.json: a module without type or path"},
      {"modules.json", With(kModules, ".Normalize", ".CNN"),
       "modules.json: module sentence_transformers.models.CNN is"},
      {"modules.json", With(kModules, ".Pooling", ".Normalize"), "Normalize is not supported in this place"},
      {"modules.json", With(kModules, ".Pooling", ".Dropout"), "Normalize is not supported in this place"},
      {"modules.json", R"([{"type":"a.Transformer","path":""}])", "modules.json: no Pooling module"},
      {"modules.json", With(kModules, "1_Pooling", "../1_Pooling"), "leads out of the folder"},
      {"1_Pooling/config.json", R"({"pooling_mode":"median"})", "config.json: pooling mode \"median\""},
      {"1_Pooling/config.json", R"({"pooling_mode":["mean",3]})", "pooling mode 3 is not supported"},
      {"1_Pooling/config.json", R"({"pooling_mode":["mean","max","mean"]})", "pooling mode \"mean\" is given twice"},
      {"1_Pooling/config.json", "{}", "1_Pooling/config.json: no pooling_mode"},
      {"1_Pooling/config.json", R"({"pooling_mode":"mean","include_prompt":false})", "include_prompt false"},
      {"2_Dense/config.json", "{}", "2_Dense/config.json: in_features is missing"},
      {"2_Dense/config.json", With(kDense, "{", R"({"activation_function":"mine.Act",)"),
       "'mine.Act' is not supported"},
      {"2_Dense/config.json", With(kDense, "{", R"({"use_residual":true,)"), "use_residual must be false"},
      {"2_Dense/config.json", With(kDense, "{", R"({"module_input_name":"token_embeddings",)"), "module_input_name"},
      {"sentence_bert_config.json", R"({"max_seq_length":0})", "sentence_bert_config.json: max_seq_length must be"},
      {"sentence_bert_config.json", R"({"config_args":{"is_causal":false}})", "config_args is not supported"},
      {"sentence_bert_config.json", R"({"module_output_name":"sentence_embedding"})", "module_output_name must be"},
      {"config.json", R"({"matryoshka_dimensions":64})",
       "config.json: matryoshka_dimensions must be a list of at most 64"},
      {"config.json", R"({"matryoshka_dimensions":[64,0]})", "whole numbers from 1, is [64,0]"},
      {"config_sentence_transformers.json", R"({"prompts":{"a":")" + std::string(65537, 'p') + R"("}})",
       "prompts: a name of 1 bytes for 65537 bytes, the limits are 256 and 65536"},
      {"config_sentence_transformers.json", R"({"prompts":{")" + std::string(257, 'n') + R"(":""}})",
       "prompts: a name of 257 bytes"},
      {"config_sentence_transformers.json", R"({"prompts":[]})", "prompts must be an object"},
      {"config_sentence_transformers.json", R"({"prompts":{"a":1}})", "prompts: 'a' must be a string"},
      {"config_sentence_transformers.json", R"({"default_prompt_name":"b"})", "default_prompt_name 'b' is not in"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.file, wrong.content);
    const TemporaryFolder folder;
    folder.Write("config.json", "{}");
    folder.Write("modules.json", With(kModules, R"({"type":"sentence_transformers.models.Normalize")",
                                      R"({"type":"sentence_transformers.models.Dense","path":"2_Dense"},)"
                                      R"({"type":"sentence_transformers.models.Normalize")"));
    folder.Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
    folder.Write("2_Dense/config.json", kDense);
    folder.Write("config_sentence_transformers.json", R"({"prompts":{"query":"q: "}})");
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
