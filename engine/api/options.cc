#include "engine/api/options.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Upper bounds of counts that cost memory or threads at start: far above sensible values, they catch a slip of the hand
// before it becomes an allocation failure.
constexpr size_t kMaxQueueItems = size_t{1} << 24;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxSlots = 64;
constexpr int kMaxCpu = 1023;  // CPU_SETSIZE - 1

// Keeps the first complaint.
class Checker {
 public:
  template <class T>
  void Require(bool holds, const std::string& key, std::string_view rule, const T& value) {
    if (holds || !status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(key, " must be ", std::string(rule), ", is ", value));
  }
  void Positive(const std::string& key, uint64_t value) { Require(value > 0, key, "> 0", value); }
  void Between(const std::string& key, uint64_t value, uint64_t low, uint64_t high) {
    Require(value >= low && value <= high, key, absl::StrCat(low, "..", high), value);
  }
  absl::Status status() const { return status_; }

 private:
  absl::Status status_;
};

std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }

void CheckAdmission(const AdmissionOptions& options, Checker& check) {
  check.Positive("admission.max_items", options.max_items);
  check.Positive("admission.max_bytes", options.max_bytes);
  for (Modality modality : kAllModalities) {
    check.Between("admission.max_modality_items." + std::string(ModalityName(modality)),
                  options.max_modality_items[static_cast<size_t>(modality)], 1, kMaxQueueItems);
  }
  check.Positive("admission.max_inputs_per_call", options.max_inputs_per_call);
}

void CheckLimits(const InputLimits& limits, Checker& check) {
  check.Positive("limits.max_text_bytes", limits.max_text_bytes);
  check.Positive("limits.max_text_tokens", limits.max_text_tokens);
  check.Positive("limits.max_image_bytes", limits.max_image_bytes);
  check.Positive("limits.max_image_pixels", limits.max_image_pixels);
}

void CheckSchedule(const ScheduleOptions& options, Checker& check) {
  for (Modality modality : kAllModalities) {
    const BatchOptions& batch = options.modalities[static_cast<size_t>(modality)];
    const std::string prefix = "schedule." + std::string(ModalityName(modality)) + ".";
    check.Between(prefix + "max_units", batch.max_units, 0, kMaxBatchUnits[static_cast<size_t>(modality)]);
    check.Between(prefix + "max_items", batch.max_items, 1, kMaxBatchItems);
    check.Require(batch.weight > 0, prefix + "weight", "> 0", batch.weight);
    check.Require(std::isfinite(batch.weight), prefix + "weight", "finite", batch.weight);
    check.Require(batch.max_wait >= Duration::zero(), prefix + "max_wait_millis", ">= 0",
                  ToSeconds(batch.max_wait) * 1000);
    check.Require(batch.max_batch_time > Duration::zero(), prefix + "max_batch_millis", "> 0",
                  ToSeconds(batch.max_batch_time) * 1000);
  }
  check.Require(options.batching == "packed" || options.batching == "fifo" || options.batching == "fifo_padded",
                "schedule.batching", "packed, fifo or fifo_padded", Quoted(options.batching));
  // Below 3 bulk work and work without deadline would start every batch between them.
  check.Require(options.bulk_every >= 3, "schedule.bulk_every", ">= 3", options.bulk_every);
}

bool IsDevice(const std::string& device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return true;
  uint32_t index = 0;
  return absl::StartsWith(device, "cuda:") && device.size() > 5 && device[5] >= '0' && device[5] <= '9' &&
         absl::SimpleAtoi(device.substr(5), &index);
}

void CheckLanes(const LaneOptions& options, Checker& check) {
  check.Require(IsDevice(options.device), "lanes.device", "auto, cpu, cuda or cuda:N", Quoted(options.device));
  check.Between("lanes.count", options.count, 0, kMaxLanes);
  check.Between("lanes.slots", options.slots, 0, kMaxSlots);
  for (size_t i = 0; i < options.cpu_affinity.size(); ++i) {
    const int cpu = options.cpu_affinity[i];
    check.Require(cpu >= 0 && cpu <= kMaxCpu, absl::StrCat("lanes.cpu_affinity[", i, "]"), absl::StrCat("0..", kMaxCpu),
                  cpu);
  }
}

void CheckDtype(const std::string& key, const std::string& dtype, Checker& check) {
  check.Require(dtype == "auto" || dtype == "fp32" || dtype == "bf16" || dtype == "fp16" || dtype == "int8", key,
                "auto, fp32, bf16, fp16 or int8", Quoted(dtype));
}

void CheckPlacement(const std::string& key, const Placement& placement, Checker& check) {
  check.Require(placement.size() <= kMaxReplicas, key, absl::StrCat("at most ", kMaxReplicas, " devices"),
                placement.size());
  for (size_t i = 0; i < placement.size(); ++i) {
    const std::string entry = absl::StrCat(key, "[", i, "]");
    check.Require(IsDevice(placement[i]), entry, "auto, cpu, cuda or cuda:N", Quoted(placement[i]));
    const auto before = placement.begin() + static_cast<std::ptrdiff_t>(i);
    check.Require(std::find(placement.begin(), before, placement[i]) == before, entry, "another device than the others",
                  Quoted(placement[i]) + " again");
  }
}

void CheckModel(const std::string& key, const ModelOptions& model, Checker& check) {
  check.Require(!model.name.empty(), key + ".name", "given", "empty");
  int before = 0;
  for (size_t i = 0; i < model.matryoshka_dimensions.size(); ++i) {
    const int size = model.matryoshka_dimensions[i];
    check.Require(size > before && size <= kMaxDimensions, absl::StrCat(key, ".matryoshka_dimensions[", i, "]"),
                  absl::StrCat(before + 1, "..", kMaxDimensions, " (the list rises)"), size);
    before = std::max(before, size);
  }
  const bool has_text = !model.folder.empty() || !model.text.folder.empty();
  check.Require(has_text || !model.image.folder.empty(), key + ".folder",
                "given where text.folder and image.folder are not", "empty");
  CheckDtype(key + ".text.dtype", model.text.dtype, check);
  CheckDtype(key + ".image.dtype", model.image.dtype, check);
  // ConSE places images in the space of the model's own texts.
  check.Require(has_text || model.image.labels.empty(), key + ".text.folder", "given where image.labels is", "empty");
  check.Require(absl::StrContains(model.image.label_template, "{name}"), key + ".image.label_template",
                "a text with {name} in it", Quoted(model.image.label_template));
  check.Positive(key + ".image.top_classes", model.image.top_classes);
  CheckPlacement(key + ".text.placement", model.text.placement, check);
  CheckPlacement(key + ".image.placement", model.image.placement, check);
  CheckPlacement(key + ".fusion.placement", model.fusion.placement, check);
  check.Require(model.self_check.min_cosine >= 0 && model.self_check.min_cosine <= 1, key + ".self_check.min_cosine",
                "0..1", model.self_check.min_cosine);
  const std::string& kind = model.fusion.kind;
  const bool learned = IsLearnedFusion(kind);
  check.Require(kind.empty() || kind == "weighted_mean" || kind == "hadamard" || learned, key + ".fusion.kind",
                absl::StrCat(kFusionKindsInWords, ", or empty"), Quoted(kind));
  if (learned) {
    check.Require(!model.fusion.folder.empty(), key + ".fusion.folder",
                  absl::StrCat("given where fusion.kind is ", kind), "empty");
  } else {
    check.Require(model.fusion.folder.empty(), key + ".fusion.folder", "empty unless fusion.kind is a learned one",
                  Quoted(model.fusion.folder));
  }
  check.Require(model.fusion.text_weight >= 0 && model.fusion.text_weight <= 1, key + ".fusion.text_weight", "0..1",
                model.fusion.text_weight);
}

}  // namespace

bool IsLearnedFusion(std::string_view kind) {
  return kind == "concat_projection" || kind == "gated" || kind == "cross_attention";
}

absl::Status Validate(const EngineOptions& options) {
  Checker check;
  CheckAdmission(options.admission, check);
  CheckLimits(options.limits, check);
  check.Between("prepare.threads", options.prepare.threads, 0, kMaxThreads);
  CheckSchedule(options.schedule, check);
  CheckLanes(options.lanes, check);
  check.Between("completion_threads", options.completion_threads, 1, kMaxThreads);
  check.Between("max_models", options.max_models, 1, kMaxModels);
  check.Require(options.models.size() <= options.max_models, "models",
                absl::StrCat("at most ", options.max_models, " (max_models)"), options.models.size());
  check.Require(!options.models.empty(), "models", "a list of at least one model", "empty");
  std::set<std::string> names;
  for (size_t i = 0; i < options.models.size(); ++i) {
    const std::string key = absl::StrCat("models[", i, "]");
    CheckModel(key, options.models[i], check);
    check.Require(names.insert(options.models[i].name).second, key + ".name", "unique",
                  Quoted(options.models[i].name) + " again");
  }
  return check.status();
}

absl::Status Validate(const ModelOptions& options) {
  Checker check;
  CheckModel("model", options, check);
  return check.status();
}

}  // namespace tributary
