#include "engine/libtorch/fuse/fusion_config.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/libtorch/weights/json_file.h"

namespace tributary {
namespace {

// Sizes beyond any module; products of two stay far within int64.
constexpr int64_t kMaxSize = int64_t{1} << 20;

void RefuseOtherKeys(JsonFile& file, const std::set<std::string>& known) {
  if (!file.root().is_object()) {
    file.Fail("not an object");
    return;
  }
  for (const auto& [key, value] : file.root().items()) {
    if (!known.contains(key)) {
      file.Fail(absl::StrCat("unknown key '", key, "'; the keys are ", absl::StrJoin(known, ", ")));
    }
  }
}

double NormEpsilon(JsonFile& file) {
  const double epsilon = file.Number("layer_norm_eps", FusionConfig().norm_epsilon);
  if (!(epsilon > 0 && epsilon < 1))
    file.Fail(absl::StrCat("layer_norm_eps must be above 0 and below 1, is ", epsilon));
  return epsilon;
}

void ReadConcatProjection(JsonFile& file, FusionConfig& config) {
  RefuseOtherKeys(file, {"fusion", "dimension", "hidden_size", "layer_norm", "layer_norm_eps"});
  if (!file.root().is_object() || !file.root().contains("hidden_size")) {
    file.Fail("hidden_size is missing (null: one layer)");
  } else if (file.Has("hidden_size")) {
    config.hidden_size = file.Count("hidden_size", kMaxSize);
  }
  config.layer_norm = file.Flag("layer_norm", false);
  config.norm_epsilon = NormEpsilon(file);
}

void ReadCrossAttention(JsonFile& file, FusionConfig& config) {
  RefuseOtherKeys(file,
                  {"fusion", "dimension", "num_hidden_layers", "num_attention_heads", "mlp_ratio", "layer_norm_eps"});
  config.layers = file.Count("num_hidden_layers", 64);
  config.heads = file.Count("num_attention_heads", kMaxSize);
  if (config.dimension % config.heads != 0) {
    file.Fail(absl::StrCat("num_attention_heads ", config.heads, " does not divide dimension ", config.dimension));
  }
  const double ratio = file.Number("mlp_ratio", 4);
  const double hidden = ratio * static_cast<double>(config.dimension);
  if (!(hidden >= 1 && hidden <= static_cast<double>(kMaxSize)) || hidden != std::floor(hidden)) {
    file.Fail(absl::StrCat("mlp_ratio ", ratio, " times dimension ", config.dimension,
                           " must be a whole number from 1 to ", kMaxSize));
  } else {
    config.hidden_size = static_cast<int64_t>(hidden);
  }
  config.norm_epsilon = NormEpsilon(file);
}

}  // namespace

absl::StatusOr<FusionConfig> ReadFusionConfig(const std::string& folder, std::string_view kind) {
  auto file = JsonFile::Read(folder + "/config.json");
  if (!file.ok()) return file.status();
  FusionConfig config;
  const std::string own_kind = file->Text("fusion", "");
  if (file->status().ok() && own_kind != kind) {
    file->Fail(absl::StrCat("fusion is '", own_kind, "', fusion.kind of the configuration '", std::string(kind), "'"));
  }
  config.dimension = file->Count("dimension", kMaxSize);
  if (kind == "concat_projection") {
    ReadConcatProjection(*file, config);
  } else if (kind == "cross_attention") {
    ReadCrossAttention(*file, config);
  } else {
    RefuseOtherKeys(*file, {"fusion", "dimension"});
  }
  if (!file->status().ok()) return file->status();
  return config;
}

}  // namespace tributary
