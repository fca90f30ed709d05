#include "engine/libtorch/encode/text_families.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/libtorch/encode/text_encoder.h"

namespace tributary {
namespace {

// tests/golden/generate_families.py: hidden states and vectors of small random models.
constexpr std::string_view kTransformers = "transformers 5.24";

constexpr TextFamily kFamilies[] = {
    {"bert", "BERT", "all-MiniLM, bge, e5, gte (2023), mxbai-embed",
     "transformers 5.24; sentence-transformers with the weights of all-MiniLM-L6-v2", true, LoadBert},
    {"clip", "CLIP", "clip-vit-base-patch32, clip-vit-large-patch14, LAION's", kTransformers, true, LoadClipText},
    {"clip_text_model", "CLIP", "a CLIP's text tower alone", kTransformers, true, LoadClipText},
    {"distilbert", "DistilBERT", "multi-qa-distilbert, msmarco-distilbert", kTransformers, true, LoadDistilBert},
    {"gemma3_text", "Gemma 3", "embeddinggemma", kTransformers, false, LoadGemma3},
    {"gte", "GTE (2024)", "gte-multilingual-base, as transformers has it", kTransformers, true, LoadGte},
    {"modernbert", "ModernBERT", "gte-modernbert, nomic-embed modernbert", kTransformers, true, LoadModernBert},
    {"mpnet", "MPNet", "all-mpnet-base, multi-qa-mpnet", kTransformers, true, LoadMpNet},
    {"new", "GTE (2024)", "gte-base-en-v1.5, gte-multilingual-base", kTransformers, true, LoadGte},
    {"nomic_bert", "NomicBERT", "nomic-embed-text-v1, v1.5", kTransformers, true, LoadNomicBert},
    {"qwen3", "Qwen3", "Qwen3-Embedding", kTransformers, true, LoadQwen3},
    {"roberta", "RoBERTa", "all-distilroberta, all-roberta-large", kTransformers, true, LoadRoberta},
    {"siglip", "SigLIP", "siglip-base-patch16-224, siglip-so400m, siglip2 of one size", kTransformers, true,
     LoadSiglipText},
    {"siglip_text_model", "SigLIP", "a SigLIP's text tower alone", kTransformers, true, LoadSiglipText},
    {"xlm-roberta", "XLM-RoBERTa", "bge-m3, multilingual-e5", kTransformers, true, LoadRoberta},
};

}  // namespace

std::span<const TextFamily> TextFamilies() { return kFamilies; }

absl::StatusOr<const TextFamily*> TextFamilyOf(const std::string& folder) {
  auto config = JsonFile::Read(folder + "/config.json");
  if (!config.ok()) return config.status();
  const std::string model_type = config->Text("model_type", "");
  for (const TextFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  config->Fail(
      absl::StrCat("model_type '", model_type, "' is not one of ",
                   absl::StrJoin(kFamilies, ", ",
                                 [](std::string* out, const TextFamily& family) { out->append(family.model_type); }),
                   model_type == kNaflexModelType ? std::string(kNaflexAdvice) : ""));
  return config->status();
}

absl::StatusOr<std::unique_ptr<TextEncoder>> LoadTextEncoder(const std::string& folder,
                                                             const SafetensorsWeights& weights, ComputeType type,
                                                             const ProgramDevice& device) {
  auto family = TextFamilyOf(folder);
  if (!family.ok()) return family.status();
  // The reference would add its weights to the model's.
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/adapter_config.json", ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/adapter_config.json: adapters are not supported; merge them into the weights"));
  }
  if (type == ComputeType::kFp16 && !(*family)->fp16) {
    return absl::InvalidArgumentError(absl::StrCat("dtype fp16 is too small for the activations of ",
                                                   std::string((*family)->name), "; use auto, bf16 or fp32"));
  }
  auto config = JsonFile::Read(folder + "/config.json");
  if (!config.ok()) return config.status();
  return (*family)->load({*config, weights, type, device});
}

}  // namespace tributary
