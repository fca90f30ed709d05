#include "engine/libtorch/weights/hub_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/libtorch/weights/json_file.h"

namespace tributary {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr size_t kMaxMatryoshkaDimensions = 64;
// Of prompts, far above what models have: their names are part of every answer that describes the model.
constexpr size_t kMaxPrompts = 256;
constexpr size_t kMaxPromptNameBytes = 256;
constexpr size_t kMaxPromptBytes = size_t{64} << 10;

// In the order in which sentence-transformers joins the outputs of the older flags.
struct PoolingName {
  const char* flag;
  const char* name;
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {
    {"pooling_mode_cls_token", "cls", Pooling::kCls},
    {"pooling_mode_max_tokens", "max", Pooling::kMax},
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::kMeanSqrtLen},
    {"pooling_mode_weightedmean_tokens", "weightedmean", Pooling::kWeightedMean},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLastToken},
};

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void AddPooling(JsonFile& file, const nlohmann::json& name, std::vector<Pooling>& poolings) {
  for (const PoolingName& known : kPoolings) {
    if (name != known.name) continue;
    if (std::find(poolings.begin(), poolings.end(), known.pooling) != poolings.end()) {
      file.Fail(absl::StrCat("pooling mode ", Shown(name), " is given twice"));
    }
    return poolings.push_back(known.pooling);
  }
  file.Fail(absl::StrCat("pooling mode ", Shown(name), " is not supported"));
}

// include_prompt false: the vectors of a prompt's tokens are not pooled.
struct PoolingConfig {
  std::vector<Pooling> poolings;
  std::optional<int64_t> size;
  bool include_prompt = true;
};

absl::StatusOr<PoolingConfig> ReadPooling(const std::string& folder) {
  auto file = JsonFile::Read(folder + "/config.json");
  if (!file.ok()) return file.status();
  PoolingConfig config;
  bool said = file->Has("pooling_mode");
  if (said) {
    const nlohmann::json& mode = file->root()["pooling_mode"];
    if (mode.is_array()) {
      for (const auto& name : mode) AddPooling(*file, name, config.poolings);
    } else {
      AddPooling(*file, mode, config.poolings);
    }
  } else {
    for (const PoolingName& known : kPoolings) {
      said |= file->Has(known.flag);
      if (file->Flag(known.flag, false)) config.poolings.push_back(known.pooling);
    }
    if (said && config.poolings.empty()) config.poolings.push_back(Pooling::kMean);
  }
  if (config.poolings.empty()) file->Fail("no pooling_mode");
  for (const char* key : {"embedding_dimension", "word_embedding_dimension"}) {
    if (file->Has(key)) config.size = file->Count(key, kMaxSize);
  }
  config.include_prompt = file->Flag("include_prompt", true);
  if (!file->status().ok()) return file->status();
  return config;
}

absl::StatusOr<DenseModule> ReadDense(const std::string& folder) {
  using Activation = DenseModule::Activation;
  constexpr std::pair<const char*, Activation> kActivations[] = {
      {"torch.nn.modules.linear.Identity", Activation::kIdentity},
      {"torch.nn.modules.activation.Tanh", Activation::kTanh},
      {"torch.nn.modules.activation.ReLU", Activation::kRelu},
      {"torch.nn.modules.activation.GELU", Activation::kGelu},
      {"torch.nn.modules.activation.Sigmoid", Activation::kSigmoid},
      {"torch.nn.modules.activation.SiLU", Activation::kSilu},
  };
  auto file = JsonFile::Read(folder + "/config.json");
  if (!file.ok()) return file.status();
  DenseModule dense{.folder = folder,
                    .in_features = file->Count("in_features", kMaxSize),
                    .out_features = file->Count("out_features", kMaxSize),
                    .bias = file->Flag("bias", true)};
  const std::string name = file->Text("activation_function", "torch.nn.modules.activation.Tanh");
  const auto* const found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                         [&](const auto& known) { return name == known.first; });
  if (found != std::end(kActivations)) {
    dense.activation = found->second;
  } else {
    file->Fail(absl::StrCat("activation_function '", name, "' is not supported"));
  }
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const std::string place = file->Text(key, "sentence_embedding");
    if (place != "sentence_embedding") file->Fail(absl::StrCat(key, " must be sentence_embedding, is '", place, "'"));
  }
  if (file->Flag("use_residual", false)) file->Fail("use_residual must be false");
  if (!file->status().ok()) return file->status();
  return dense;
}

// sentence_bert_config.json, beside the transformer.
absl::Status ReadTransformer(const std::string& folder, TextModelFolder& model) {
  model.transformer_folder = folder;
  const std::string path = folder + "/sentence_bert_config.json";
  if (!Exists(path)) return absl::OkStatus();
  auto file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  if (file->Has("max_seq_length")) model.max_seq_length = file->Count("max_seq_length", kMaxSize);
  const std::string output = file->Text("module_output_name", "token_embeddings");
  if (output != "token_embeddings") {
    file->Fail(absl::StrCat("module_output_name must be token_embeddings, is '", output, "'"));
  }
  // Words for the constructors of model and configuration: each may change what is computed.
  for (const char* key : {"config_args", "config_kwargs", "model_args", "model_kwargs"}) {
    if (file->Has(key) && !file->root()[key].empty()) {
      file->Fail(absl::StrCat(key, " is not supported, is ", Shown(file->root()[key])));
    }
  }
  return file->status();
}

absl::Status ReadPrompts(const std::string& folder, TextModelFolder& model) {
  const std::string path = folder + "/config_sentence_transformers.json";
  if (!Exists(path)) return absl::OkStatus();
  auto file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  if (file->Has("prompts")) {
    const nlohmann::json& prompts = file->root()["prompts"];
    if (!prompts.is_object()) file->Fail("prompts must be an object");
    for (const auto& [name, prompt] : prompts.items()) {
      if (prompt.is_null()) continue;
      if (!prompt.is_string()) {
        file->Fail(absl::StrCat("prompts: '", name, "' must be a string"));
        break;
      }
      model.prompts[name] = prompt.get<std::string>();
      if (name.size() > kMaxPromptNameBytes || model.prompts[name].size() > kMaxPromptBytes) {
        file->Fail(absl::StrCat("prompts: a name of ", name.size(), " bytes for ", model.prompts[name].size(),
                                " bytes, the limits are ", kMaxPromptNameBytes, " and ", kMaxPromptBytes));
      }
    }
    if (model.prompts.size() > kMaxPrompts) {
      file->Fail(absl::StrCat("prompts has ", model.prompts.size(), " entries, the limit is ", kMaxPrompts));
    }
  }
  model.default_prompt = file->Text("default_prompt_name", "");
  if (!model.default_prompt.empty() && !model.prompts.contains(model.default_prompt)) {
    file->Fail(absl::StrCat("default_prompt_name '", model.default_prompt, "' is not in prompts"));
  }
  return file->status();
}

// Some families list their sizes in config.json, where vLLM reads them too.
absl::Status ReadMatryoshkaDimensions(TextModelFolder& model) {
  constexpr char kKey[] = "matryoshka_dimensions";
  auto file = JsonFile::Read(model.transformer_folder + "/config.json");
  if (!file.ok()) return file.status();
  if (!file->Has(kKey)) return absl::OkStatus();
  const nlohmann::json& sizes = file->root()[kKey];
  bool good = sizes.is_array() && sizes.size() <= kMaxMatryoshkaDimensions;
  for (const auto& size : good ? sizes : nlohmann::json::array()) {
    good = good && size.is_number_unsigned() && size > 0 && size <= kMaxSize;
    if (good) model.matryoshka_dimensions.push_back(size.get<int64_t>());
  }
  if (!good)
    file->Fail(absl::StrCat(kKey, " must be a list of at most ", kMaxMatryoshkaDimensions, " whole numbers from 1, is ",
                            Shown(sizes)));
  return file->status();
}

// The chain must be Transformer, Pooling, any number of Dense, at most one Normalize; or CLIPModel, at most one
// Normalize. Dropout does nothing.
class Chain {
 public:
  explicit Chain(std::string path) : path_(std::move(path)) {}

  absl::Status Add(const std::string& type, const std::string& folder, TextModelFolder& model) {
    if (absl::EndsWith(type, ".Transformer")) {
      if (next_ != Next::kTransformer) return WrongPlace(type);
      next_ = Next::kPooling;
      return ReadTransformer(folder, model);
    }
    if (absl::EndsWith(type, ".CLIPModel")) {  // pools and projects itself
      if (next_ != Next::kTransformer) return WrongPlace(type);
      next_ = Next::kNormalize;
      return ReadTransformer(folder, model);
    }
    if (absl::EndsWith(type, ".Pooling")) {
      if (next_ != Next::kPooling) return WrongPlace(type);
      next_ = Next::kDense;
      auto pooling = ReadPooling(folder);
      if (!pooling.ok()) return pooling.status();
      model.has_pooling = true;
      model.pooling = std::move(pooling->poolings);
      model.pooled_size = pooling->size;
      include_prompt_ = pooling->include_prompt;
      return absl::OkStatus();
    }
    if (absl::EndsWith(type, ".Dense")) {
      if (next_ != Next::kDense) return WrongPlace(type);
      auto dense = ReadDense(folder);
      if (!dense.ok()) return dense.status();
      model.dense.push_back(*std::move(dense));
      return absl::OkStatus();
    }
    if (absl::EndsWith(type, ".Normalize")) {
      if (next_ != Next::kDense && next_ != Next::kNormalize) return WrongPlace(type);
      next_ = Next::kNothing;
      model.normalise = true;
      return absl::OkStatus();
    }
    if (absl::EndsWith(type, ".Dropout")) return absl::OkStatus();
    return Wrong(absl::StrCat("module ", type, " is not supported (Transformer, Pooling, Dense and Normalize are)"));
  }

  absl::Status End(const TextModelFolder& model) const {
    if (next_ == Next::kTransformer) return Wrong("no Transformer module");
    if (next_ == Next::kPooling) return Wrong("no Pooling module");
    if (include_prompt_) return absl::OkStatus();
    for (const auto& [name, prompt] : model.prompts) {
      if (!prompt.empty()) return Wrong("pooling without the prompt (include_prompt false) is not supported");
    }
    return absl::OkStatus();
  }

 private:
  enum class Next : uint8_t { kTransformer, kPooling, kDense, kNormalize, kNothing };

  absl::Status Wrong(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
  }
  absl::Status WrongPlace(const std::string& type) const {
    return Wrong(absl::StrCat("module ", type, " is not supported in this place"));
  }

  const std::string path_;
  Next next_ = Next::kTransformer;
  bool include_prompt_ = true;
};

absl::Status ReadModules(const std::string& folder, const std::string& path, TextModelFolder& model) {
  auto file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  if (!file->root().is_array()) return absl::InvalidArgumentError(absl::StrCat(path, ": must be an array of modules"));
  Chain chain(path);
  for (const auto& module : file->root()) {
    if (!module.is_object() || !module.contains("type") || !module["type"].is_string() || !module.contains("path") ||
        !module["path"].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a module without type or path"));
    }
    const auto& place = module["path"].get_ref<const std::string&>();
    if (absl::StrContains(place, "..") || absl::StartsWith(place, "/")) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": path '", place, "' leads out of the folder"));
    }
    const std::string module_folder = place.empty() ? folder : absl::StrCat(folder, "/", place);
    if (auto status = chain.Add(module["type"], module_folder, model); !status.ok()) return status;
  }
  return chain.End(model);
}

}  // namespace

absl::StatusOr<TextModelFolder> ReadTextModelFolder(const std::string& folder) {
  TextModelFolder model;
  if (auto status = ReadPrompts(folder, model); !status.ok()) return status;
  const std::string modules = folder + "/modules.json";
  auto status = Exists(modules) ? ReadModules(folder, modules, model) : ReadTransformer(folder, model);
  if (!status.ok()) return status;
  if (!Exists(model.transformer_folder + "/config.json")) {
    return absl::NotFoundError(absl::StrCat("cannot open ", model.transformer_folder, "/config.json"));
  }
  if (status = ReadMatryoshkaDimensions(model); !status.ok()) return status;
  return model;
}

}  // namespace tributary
