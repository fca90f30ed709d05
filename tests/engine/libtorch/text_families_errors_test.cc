// Model folders that the text encoder families refuse.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/weights/hub_folder.h"
#include "tests/engine/libtorch/family_goldens.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

std::string ErrorOf(const FamilyCopy& copy) {
  InitTorchThread();
  const auto folder = ReadTextModelFolder(copy.path());
  if (!folder.ok()) return std::string(folder.status().message());
  const auto loaded = LoadTextProgram(*folder, {.dtype = "fp32"});
  return loaded.ok() ? "no error" : std::string(loaded.status().message());
}

TEST_CASE("What would change a family's numbers and is not supported is refused by its key") {
  struct Case {
    const char* family;
    nlohmann::json patch;
    const char* error;
  };
  const Case cases[] = {
      {"bert", {{"model_type", "gpt2"}}, "config.json: model_type 'gpt2' is not one of bert, clip,"},
      {"bert", {{"hidden_size", nullptr}}, "config.json: hidden_size is missing"},
      {"bert", {{"hidden_size", -12}}, "hidden_size must be a whole number"},
      {"bert", {{"hidden_size", "12"}}, "hidden_size must be a whole number"},
      {"bert", {{"vocab_size", 99999999999}}, "vocab_size must be a whole number"},
      {"bert", {{"num_attention_heads", 5}}, "num_attention_heads 5 does not divide hidden_size 32"},
      {"bert", {{"position_embedding_type", "relative_key"}}, "position_embedding_type must be absolute"},
      {"bert", {{"is_decoder", true}}, "is_decoder must be false"},
      {"bert", {{"add_cross_attention", true}}, "add_cross_attention must be false"},
      {"bert", {{"layer_norm_eps", "small"}}, "layer_norm_eps must be a number"},
      {"bert", {{"layer_norm_eps", -1}}, "layer_norm_eps must not be below 0, is -1"},
      {"mpnet", {{"max_position_embeddings", 40000}}, "max_position_embeddings must be at most 4096, is 40000"},
      {"gte", {{"type_vocab_size", 1.5}}, "type_vocab_size must be a whole number"},
      {"qwen3", {{"rope_parameters", {{"rope_type", 5}}}}, "rope_type must be a string, is 5"},
      {"bert", {{"hidden_act", "quick_gelu"}}, "hidden_act must be gelu,"},
      {"bert", {{"pruned_heads", {{"0", {1}}}}}, "pruned_heads is not supported"},
      {"bert", {{"quantization_config", {{"bits", 4}}}}, "quantization_config is not supported"},
      {"distilbert", {{"activation", "tanh"}}, "activation must be gelu,"},
      {"roberta", {{"pad_token_id", 98}}, "pad_token_id must be a whole number from 0"},
      {"xlm-roberta", {{"position_embedding_type", "relative_key_query"}}, "position_embedding_type must be"},
      {"mpnet", {{"relative_attention_num_buckets", 64}}, "relative_attention_num_buckets must be 32"},
      {"nomic_bert", {{"rope_parameters", {{"rope_type", "dynamic"}}}}, "type 'dynamic' is not supported"},
      {"nomic_bert", {{"n_embd", 32}}, "n_layer is missing"},
      {"gte", {{"rope_scaling", {{"type", "ntk"}, {"factor", 2}}}}, "rope_scaling: type 'ntk' is not supported"},
      {"new", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}, "rope_scaling: type 'linear' is not"},
      {"new", {{"rope_scaling", {{"mixed_b", 0.5}}}}, "mixed_b must be null"},
      {"new", {{"layer_norm_type", "rms_norm"}}, "layer_norm_type must be layer_norm"},
      {"new", {{"logn_attention_scale", true}}, "logn_attention_scale must be false"},
      {"new", {{"position_embedding_type", "absolute"}}, "position_embedding_type must be rope"},
      {"modernbert", {{"hidden_activation", "gelu_fast"}}, "hidden_activation must be gelu,"},
      {"modernbert", {{"layer_types", {"full_attention", "chunked", "full_attention"}}}, "layer_types: \"chunked\""},
      {"modernbert", {{"layer_types", {"full_attention"}}}, "layer_types must be an array of 3 names"},
      {"modernbert", {{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}, "type 'yarn' is not"},
      {"qwen3", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}}, "rope_scaling: type 'yarn' is not"},
      {"qwen3", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor must be 1"},
      {"qwen3", {{"num_key_value_heads", 3}}, "num_key_value_heads 3 does not divide num_attention_heads 4"},
      {"qwen3", {{"is_causal", false}}, "is_causal must be true"},
      {"qwen3", {{"head_dim", 15}}, "heads of 15 numbers cannot be rotated"},
      {"gemma3_text", {{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping is not supported"},
      {"gemma3_text", {{"query_pre_attn_scalar", 0}}, "query_pre_attn_scalar must be above 0"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.family, wrong.patch.dump());
    const FamilyCopy copy(wrong.family);
    copy.PatchConfig(wrong.patch);
    CHECK_THAT(ErrorOf(copy), ContainsSubstring(wrong.error));
  }
}

TEST_CASE("Folders whose weights do not fit are refused with file, tensor and shapes") {
  const FamilyCopy missing_shard("mpnet");
  std::filesystem::remove(missing_shard.File("model-00002-of-00003.safetensors"));
  CHECK_THAT(ErrorOf(missing_shard), ContainsSubstring("model-00002-of-00003.safetensors"));

  const FamilyCopy empty_index("mpnet");
  std::ofstream(empty_index.File("model.safetensors.index.json")) << R"({"weight_map":{}})";
  CHECK_THAT(ErrorOf(empty_index), ContainsSubstring("index.json: weight_map names no file"));

  const FamilyCopy shape("qwen3");
  shape.PatchConfig({{"num_key_value_heads", 4}});
  CHECK_THAT(ErrorOf(shape), ContainsSubstring("'model.layers.0.self_attn.k_proj.weight' has shape [32, 32], expected "
                                               "[64, 32]"));

  const FamilyCopy without("gte");
  without.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string&) {
    header["other"] = header["encoder.layer.1.mlp_ln.bias"];
    header.erase("encoder.layer.1.mlp_ln.bias");
  });
  CHECK_THAT(ErrorOf(without), ContainsSubstring("model.safetensors: no tensor 'encoder.layer.1.mlp_ln.bias'"));

  const FamilyCopy nothing("gte");
  nothing.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string&) {
    header["words"] = header["embeddings.word_embeddings.weight"];
    header.erase("embeddings.word_embeddings.weight");
  });
  CHECK_THAT(ErrorOf(nothing),
             ContainsSubstring("no tensor 'embeddings.word_embeddings.weight', with or without a prefix"));

  const FamilyCopy twice("distilbert");
  twice.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string& data) {
    header["other.embeddings.word_embeddings.weight"] = {
        {"dtype", "F32"}, {"shape", {96, 32}}, {"data_offsets", {data.size(), data.size() + size_t{4 * 96 * 32}}}};
    data.append(size_t{4 * 96 * 32}, '\0');
  });
  CHECK_THAT(ErrorOf(twice), ContainsSubstring("which model is meant is not clear"));

  const FamilyCopy integers("roberta");
  integers.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string&) {
    header["roberta.encoder.layer.0.output.dense.bias"]["dtype"] = "I16";
  });
  CHECK_THAT(ErrorOf(integers), ContainsSubstring("output.dense.bias' is not of a floating point type"));

  const FamilyCopy adapter("bert");
  std::ofstream(adapter.File("adapter_config.json")) << "{}";
  CHECK_THAT(ErrorOf(adapter), ContainsSubstring("adapter_config.json: adapters are not supported"));
}

TEST_CASE("Modules after the encoder that do not fit it are refused") {
  const FamilyCopy pooling("distilbert");
  std::ofstream(pooling.File("1_Pooling/config.json")) << R"({"pooling_mode":"cls","embedding_dimension":48})";
  CHECK_THAT(ErrorOf(pooling), ContainsSubstring("pooling is for vectors of 48 numbers, the encoder's have 32"));

  const FamilyCopy dense("gemma3_text");
  std::ofstream(dense.File("2_Dense/config.json")) << R"({"in_features":41,"out_features":64})";
  CHECK_THAT(ErrorOf(dense), ContainsSubstring("2_Dense/config.json: in_features is 41, what comes in has 40"));

  const FamilyCopy bias("gemma3_text");
  std::ofstream(bias.File("2_Dense/config.json")) << R"({"in_features":40,"out_features":64})";
  CHECK_THAT(ErrorOf(bias), ContainsSubstring("2_Dense/model.safetensors: no tensor 'linear.bias'"));
}

}  // namespace
}  // namespace tributary
