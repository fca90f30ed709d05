// Model folders that the image encoder families refuse.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/image_program.h"
#include "tests/engine/libtorch/image_family_goldens.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

std::string ErrorOf(const FamilyCopy& copy, const std::string& golden) {
  InitTorchThread();
  const auto loaded = LoadImageProgram(copy.path(), LoadImageFamilyGolden(golden).preprocessing, {.dtype = "fp32"});
  return loaded.ok() ? "no error" : std::string(loaded.status().message());
}

TEST_CASE("What would change an image family's numbers and is not supported is refused by its key") {
  struct Case {
    const char* family;
    nlohmann::json patch;
    const char* error;
  };
  const Case cases[] = {
      {"clip", {{"model_type", "blip"}}, "config.json: model_type 'blip' is not one of clip, clip_vision_model,"},
      {"clip", {{"vision_config", 7}}, "config.json: vision_config must be an object"},
      {"clip", {{"vision_config", {{"hidden_act", "mish"}}}}, "vision_config: hidden_act must be gelu,"},
      {"clip", {{"vision_config", {{"hidden_size", 0}}}}, "vision_config: hidden_size must be a whole number"},
      {"clip", {{"vision_config", {{"num_attention_heads", 5}}}}, "num_attention_heads 5 does not divide hidden_size"},
      {"clip", {{"vision_config", {{"num_channels", 4}}}}, "num_channels must be 3, is 4"},
      {"clip",
       {{"vision_config", {{"image_size", 32}}}},
       "image_size is 32 x 32, the preprocessing makes images of 24"},
      {"clip", {{"quantization_config", {{"bits", 4}}}}, "quantization_config is not supported"},
      {"clip", {{"projection_dim", "20"}}, "projection_dim must be a whole number"},
      {"clip_vision_model", {{"layer_norm_eps", -1}}, "layer_norm_eps must not be below 0, is -1"},
      {"clip_vision_model", {{"patch_size", 25}}, "patch_size 25 x 25 is larger than the images, 24 x 24"},
      {"siglip_vision_model", {{"vision_use_head", "yes"}}, "vision_use_head must be true or false"},
      {"siglip_vision_model", {{"layer_norm_eps", "small"}}, "layer_norm_eps must be a number"},
      {"vit", {{"pooler_act", "relu"}}, "pooler_act must be tanh, is 'relu'"},
      {"vit", {{"image_size", {24, 24, 24}}}, "image_size must be two whole numbers"},
      {"vit", {{"image_size", -1}}, "image_size must be a whole number"},
      {"vit", {{"head_dim", 16}}, "head_dim is not supported"},
      {"dinov2", {{"image_size", {28, 35}}}, "image_size and patch_size must be those of squares"},
      {"dinov2", {{"mlp_ratio", 2.5}}, "mlp_ratio must be a whole number"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.family, wrong.patch.dump());
    const FamilyCopy copy = ImageFamilyCopy(wrong.family);
    copy.PatchConfig(wrong.patch);
    CHECK_THAT(ErrorOf(copy, wrong.family), ContainsSubstring(wrong.error));
  }
}

TEST_CASE("Image folders whose weights do not fit are refused with file, tensor and shapes") {
  const FamilyCopy missing_shard = ImageFamilyCopy("clip_vision_model-projection");
  std::filesystem::remove(missing_shard.File("model-00002-of-00003.safetensors"));
  CHECK_THAT(ErrorOf(missing_shard, "clip_vision_model-projection"),
             ContainsSubstring("model-00002-of-00003.safetensors"));

  const FamilyCopy patch = ImageFamilyCopy("clip_vision_model");
  patch.PatchConfig({{"patch_size", 7}});
  CHECK_THAT(ErrorOf(patch, "clip_vision_model"),
             ContainsSubstring("'embeddings.patch_embedding.weight' has shape [32, 3, 8, 8], expected [32, 3, 7, 7]"));

  const FamilyCopy projection = ImageFamilyCopy("clip");
  projection.PatchConfig({{"projection_dim", 24}});
  CHECK_THAT(ErrorOf(projection, "clip"),
             ContainsSubstring("'visual_projection.weight' has shape [20, 32], expected [24, 32]"));

  const FamilyCopy without = ImageFamilyCopy("clip");
  without.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string&) {
    header["other"] = header["visual_projection.weight"];
    header.erase("visual_projection.weight");
  });
  CHECK_THAT(ErrorOf(without, "clip"), ContainsSubstring("no tensor 'visual_projection.weight'"));

  const FamilyCopy registers = ImageFamilyCopy("dinov2_with_registers");
  registers.PatchConfig({{"num_register_tokens", 4}});
  CHECK_THAT(ErrorOf(registers, "dinov2_with_registers"),
             ContainsSubstring("'embeddings.register_tokens' has shape [1, 3, 32], expected [1, 4, 32]"));

  const FamilyCopy plain = ImageFamilyCopy("dinov2");
  plain.PatchConfig({{"use_swiglu_ffn", true}});
  CHECK_THAT(ErrorOf(plain, "dinov2"), ContainsSubstring("no tensor 'encoder.layer.0.mlp.weights_in.weight'"));

  const FamilyCopy integers = ImageFamilyCopy("vit");
  integers.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string&) {
    header["encoder.layer.0.output.dense.bias"]["dtype"] = "I32";
  });
  CHECK_THAT(ErrorOf(integers, "vit"), ContainsSubstring("output.dense.bias' is not of a floating point type"));

  const FamilyCopy adapter = ImageFamilyCopy("vit");
  std::ofstream(adapter.File("adapter_config.json")) << "{}";
  CHECK_THAT(ErrorOf(adapter, "vit"), ContainsSubstring("adapter_config.json: adapters are not supported"));
}

}  // namespace
}  // namespace tributary
