// Every option of the engine, with defaults. server/server_config fills them from YAML and flags; config/README.md
// lists the keys. Validate() names the key that is wrong, as it is written in YAML.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/types.h"

namespace tributary {

// Limits on what is in flight: from admission until the completion has run. Beyond: RESOURCE_EXHAUSTED.
struct AdmissionOptions {
  size_t max_items = 16384;              // items of all modalities (a pair counts three: text, image, fusion)
  size_t max_bytes = size_t{512} << 20;  // input bytes
  std::array<size_t, kModalityCount> max_modality_items = {8192, 1024, 1024};  // index: Modality
  size_t max_inputs_per_call = 1024;                                           // INVALID_ARGUMENT beyond
};

// Limits of one input. Beyond: INVALID_ARGUMENT for that item.
struct InputLimits {
  size_t max_text_bytes = size_t{1} << 20;
  size_t max_text_tokens = 65536;                  // ready token ids of one text
  size_t max_image_bytes = size_t{16} << 20;       // encoded or raw
  uint64_t max_image_pixels = uint64_t{40} << 20;  // width x height, read from the header before decoding
};

struct PrepareOptions {
  size_t threads = 0;  // 0: one per CPU the process may use, at most 4
};

// Bounds of BatchOptions, at least twice what the largest GPUs have a use for: the sizes of a batch up to the limits
// are run once at start, and the largest has its place in every staging slot.
inline constexpr std::array<uint64_t, kModalityCount> kMaxBatchUnits = {32768, uint64_t{1} << 24, 4096};
inline constexpr size_t kMaxBatchItems = 4096;

// Batches of one modality.
struct BatchOptions {
  uint64_t max_units = 0;  // tokens (text), pixels (image), pairs (fusion); 0: the encoder's own default
  size_t max_items = 256;
  double weight = 1.0;   // share of device time when modalities compete; > 0
  Duration max_wait{0};  // a policy: hold a batch that is not full this long; 0: never wait while a lane is free
  Duration max_batch_time =
      std::chrono::milliseconds(100);  // by the cost model; a batch is cut to it (one item always fits)
};

struct ScheduleOptions {
  std::array<BatchOptions, kModalityCount> modalities;  // index: Modality
  bool drop_late = true;                                // give up items the cost model says cannot make their deadline
  // "packed": as engine/schedule/README.md says. To measure that against, what simpler servers do: "fifo", by arrival
  // up to the limits; "fifo_padded", and every text computed as long as its batch's longest.
  std::string batching = "packed";
  // Interactive before bulk, but at least every n-th batch starts with waiting bulk work, and another one with waiting
  // interactive work that has no deadline; >= 3.
  size_t bulk_every = 8;
};

inline constexpr size_t kMaxLanes = 1024;
inline constexpr int kMaxDimensions = 65536;  // of a shorter vector

// The lanes of each device that something is placed on.
struct LaneOptions {
  // Of what names no placement: "auto", "cpu", "cuda", "cuda:N"; auto: cuda where there is one, else cpu.
  std::string device = "auto";
  size_t count = 0;               // lanes, at most kMaxLanes; 0: cpu: one per CPU of the cgroup's limit; cuda: 2
  size_t slots = 0;               // staging slots a lane; 0: 2 on cpu, 3 on cuda
  std::vector<int> cpu_affinity;  // cpu lanes: lane i runs on cpu_affinity[i % size]; empty: not pinned
};

// Devices an encoder runs on, named as in LaneOptions::device: it has a replica on each. Empty: that of the lanes.
using Placement = std::vector<std::string>;
inline constexpr size_t kMaxReplicas = 64;

struct TextModelOptions {
  std::string folder;               // hub folder; empty: the text part of ModelOptions::folder, if any
  std::string dtype = "auto";       // auto, fp32, bf16, fp16, int8
  size_t max_tokens = 0;            // 0: what the folder says; never more than that
  std::string default_prompt = {};  // one of the folder's prompts; empty: what the folder says
  Placement placement = {};
};

struct ImageModelOptions {
  std::string folder;  // hub folder, or EfficientNet-Lite0's; empty: the image part of ModelOptions::folder, if any
  std::string dtype = "auto";
  // Text file, one class name a line, in class order: images get their vectors from those of the names, by the model's
  // own texts (ConSE). Empty: an image's vector is its encoder's own.
  std::string labels;
  std::string label_template = "a photo of a {name}";
  size_t top_classes = 10;  // k of ConSE
  Placement placement;
};

inline constexpr char kFusionKindsInWords[] = "weighted_mean, hadamard, concat_projection, gated or cross_attention";
// Those that have weights, from a folder.
bool IsLearnedFusion(std::string_view kind);

struct FusionOptions {
  std::string kind = "weighted_mean";  // or another of the above; empty: no pairs
  double text_weight = 0.5;            // weighted_mean: weight of the text part, 0..1; the image part has the rest
  std::string folder = {};             // of a learned kind: config.json and model.safetensors; empty for the others
  Placement placement = {};
};

// Reference vectors a model is compared with while it loads.
struct SelfCheckOptions {
  std::string file;             // JSON: inputs and vectors (engine/libtorch/self_check.h); empty: no check
  double min_cosine = 0;        // 0: by dtype: fp32 0.9999, bf16 and fp16 0.999, int8 0.99
  bool allow_mismatch = false;  // true: a model that fails serves all the same, and its gauge says so
};

struct ModelOptions {
  std::string name;
  std::string folder = {};  // hub folder of the whole model: the parts it has are served; empty: those below
  // Sizes of shorter vectors the model is trained for, rising, each below the full size; empty: what the folder says.
  std::vector<int> matryoshka_dimensions = {};
  TextModelOptions text;
  ImageModelOptions image;
  FusionOptions fusion;
  SelfCheckOptions self_check;
};

// Upper bound of EngineOptions::max_models.
inline constexpr size_t kMaxModels = 4096;

struct EngineOptions {
  AdmissionOptions admission;
  InputLimits limits;
  PrepareOptions prepare;
  ScheduleOptions schedule;
  LaneOptions lanes;
  size_t completion_threads = 1;
  std::string cache_folder;  // derived data (label vectors) by content hash; empty: not cached
  // Shared libraries with operators that exported models use; a model's manifest names them by file name. Loading one
  // runs its code, so that only paths given here are ever loaded.
  std::vector<std::string> op_libraries;
  std::vector<ModelOptions> models;  // the first is the default
  size_t max_models = 64;            // those loaded at run time included
};

// INVALID_ARGUMENT naming the key and the value ("schedule.text.weight must be > 0, is -1").
absl::Status Validate(const EngineOptions& options);
// Of one model, as for loading it at run time: keys begin with "model.".
absl::Status Validate(const ModelOptions& options);

}  // namespace tributary
