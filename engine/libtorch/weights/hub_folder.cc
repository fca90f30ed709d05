#include "engine/libtorch/weights/hub_folder.h"

#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/weights/json_file.h"

namespace tributary {
namespace {

// Sizes beyond any model; products of them stay far within int64.
constexpr int64_t kMaxSize = int64_t{1} << 24;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Where modules.json puts the parts. Empty pooling folder: mean.
struct Modules {
  std::string transformer_folder;
  std::string pooling_folder;
  bool normalise = false;
};

absl::StatusOr<Modules> ReadModules(const std::string& folder) {
  Modules modules{.transformer_folder = folder, .pooling_folder = "", .normalise = false};
  const std::string path = folder + "/modules.json";
  if (!Exists(path)) return modules;
  auto file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  if (!file->root().is_array()) return absl::InvalidArgumentError(absl::StrCat(path, ": must be an array of modules"));
  for (const auto& module : file->root()) {
    if (!module.is_object() || !module.contains("type") || !module["type"].is_string() || !module.contains("path") ||
        !module["path"].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a module without type or path"));
    }
    const auto& type = module["type"].get_ref<const std::string&>();
    const auto& place = module["path"].get_ref<const std::string&>();
    if (absl::StrContains(place, "..") || absl::StartsWith(place, "/")) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": path '", place, "' leads out of the folder"));
    }
    if (absl::EndsWith(type, ".Transformer")) {
      if (!place.empty()) modules.transformer_folder = absl::StrCat(folder, "/", place);
    } else if (absl::EndsWith(type, ".Pooling")) {
      modules.pooling_folder = absl::StrCat(folder, "/", place);
    } else if (absl::EndsWith(type, ".Normalize")) {
      modules.normalise = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": module ", type, " is not supported (Transformer, Pooling and Normalize are)"));
    }
  }
  return modules;
}

absl::StatusOr<Pooling> ReadPooling(const std::string& folder) {
  if (folder.empty()) return Pooling::kMean;
  auto file = JsonFile::Read(folder + "/config.json");
  if (!file.ok()) return file.status();
  // Older folders have a flag for each mode, of which several may be set: then the reference joins their outputs.
  std::string chosen = file->Text("pooling_mode", "");
  for (const char* mode :
       {"cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"}) {
    const std::string key = absl::StrCat("pooling_mode_", mode);
    if (!file->Flag(key.c_str(), false)) continue;
    if (!chosen.empty()) file->Fail("more than one pooling mode is not supported");
    chosen = mode;
  }
  if (!file->status().ok()) return file->status();
  if (chosen == "mean_tokens" || chosen == "mean") return Pooling::kMean;
  if (chosen == "cls_token" || chosen == "cls") return Pooling::kCls;
  if (chosen == "max_tokens" || chosen == "max") return Pooling::kMax;
  return absl::InvalidArgumentError(
      absl::StrCat(file->path(), ": pooling mode '", chosen, "' is not supported (mean, cls and max are)"));
}

absl::StatusOr<BertConfig> ReadBertConfig(const std::string& folder) {
  auto file = JsonFile::Read(folder + "/config.json");
  if (!file.ok()) return file.status();
  const std::string type = file->Text("model_type", "");
  if (type != "bert") file->Fail(absl::StrCat("model_type must be bert, is '", type, "'"));
  const std::string positions = file->Text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    file->Fail(absl::StrCat("position_embedding_type must be absolute, is '", positions, "'"));
  }
  if (file->Flag("is_decoder", false)) file->Fail("is_decoder must be false");
  BertConfig config;
  config.hidden_size = file->Count("hidden_size", kMaxSize);
  config.layers = file->Count("num_hidden_layers", 1024);
  config.heads = file->Count("num_attention_heads", kMaxSize);
  config.intermediate_size = file->Count("intermediate_size", kMaxSize);
  config.vocabulary_size = file->Count("vocab_size", kMaxSize);
  config.max_positions = file->Count("max_position_embeddings", kMaxSize);
  config.token_types = file->Count("type_vocab_size", kMaxSize, 2);
  config.layer_norm_eps = file->Number("layer_norm_eps", 1e-12);
  config.hidden_act = file->Text("hidden_act", "gelu");
  if (config.hidden_size % config.heads != 0) {
    file->Fail(absl::StrCat("num_attention_heads ", config.heads, " does not divide hidden_size ", config.hidden_size));
  }
  if (!file->status().ok()) return file->status();
  return config;
}

}  // namespace

absl::StatusOr<TextModelFolder> ReadTextModelFolder(const std::string& folder) {
  auto modules = ReadModules(folder);
  if (!modules.ok()) return modules.status();
  auto bert = ReadBertConfig(modules->transformer_folder);
  if (!bert.ok()) return bert.status();
  auto pooling = ReadPooling(modules->pooling_folder);
  if (!pooling.ok()) return pooling.status();
  return TextModelFolder{.transformer_folder = modules->transformer_folder,
                         .bert = *std::move(bert),
                         .pooling = *pooling,
                         .normalise = modules->normalise};
}

}  // namespace tributary
