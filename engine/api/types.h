// The words of a request: what a caller hands to the engine and what comes back. See engine/README.md for the flow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "engine/base/clock.h"

namespace tributary {

// One queue, one batch stream and one cost model each. kFusion joins the parts of a pair.
enum class Modality : uint8_t { kText = 0, kImage = 1, kFusion = 2 };
inline constexpr size_t kModalityCount = 3;
inline constexpr std::array<Modality, kModalityCount> kAllModalities = {Modality::kText, Modality::kImage,
                                                                        Modality::kFusion};
std::string_view ModalityName(Modality modality);  // "text", "image", "fusion"

enum class Priority : uint8_t { kInteractive = 0, kBulk = 1 };

// What happens to a text longer than the model's limit: an error, or tokens cut at its end or its start.
enum class Truncation : uint8_t { kNone, kEnd, kStart };

// Text as a string (UTF-8) or as ready token ids (special tokens included, taken as they are).
// Views borrow from EmbedRequest::owner.
struct TextInput {
  std::string_view text;
  std::optional<std::span<const int32_t>> token_ids;  // set: `text` is ignored
  // Stands before `text`, as if it were part of it. The engine sets it, by EmbedOptions::prompt_name.
  std::string_view prompt = {};
};

// An image as encoded bytes (JPEG, PNG, WebP) or as raw RGB rows, u8 [height, width, 3], no row padding.
// Views borrow from EmbedRequest::owner.
struct ImageInput {
  std::string_view encoded;
  struct RawRgb {
    std::string_view bytes;
    uint32_t width = 0;
    uint32_t height = 0;
  };
  std::optional<RawRgb> raw_rgb;  // set: `encoded` is ignored
};

// One input of a call. Text calls set `text`, image calls `image`, pair calls at least one of them.
struct EmbedInput {
  std::optional<TextInput> text;
  std::optional<ImageInput> image;
};

enum class RequestKind : uint8_t { kText, kImage, kPair };

// Set once by the client's side, read by every stage. Thread-safe.
class CancelToken;

struct EmbedOptions {
  std::string model;              // empty: the default model
  std::optional<bool> normalise;  // unset: what the model's own configuration says
  Truncation truncation = Truncation::kEnd;
  Priority priority = Priority::kInteractive;
  TimePoint deadline = kNoDeadline;
  // Numbers of every vector, the first ones of the full vector: 0 all, else one of ModelInfo::matryoshka_dimensions.
  uint32_t dimensions = 0;
  // The prompt before every text. Unset: the model's default one; empty: none; else one of ModelInfo::prompt_names.
  // Texts that come as token ids get none, and a name is an error of theirs.
  std::optional<std::string> prompt_name;
};

struct EmbedRequest {
  RequestKind kind = RequestKind::kText;
  std::vector<EmbedInput> inputs;
  EmbedOptions options;
  std::shared_ptr<CancelToken> cancel;  // may be null
  std::shared_ptr<const void> owner;    // keeps the bytes behind the views alive until the completion has run
};

// Where one result's time went. Zero: the stage was not entered. Of a pair: its slower part, plus its fusion.
struct StageTimes {
  Duration prepare_wait{0};  // admitted -> a preparation worker took it
  Duration prepare{0};       // tokenise / decode and resize
  Duration queue{0};         // pushed to the modality queue -> its batch was formed
  Duration lane{0};          // batch formed -> execution started (staging, copy in, wait for the stream)
  Duration compute{0};       // execution on the device
  Duration fusion{0};        // parts joined -> fused vector ready
  Duration total{0};         // admitted -> the result complete; of a pair: fused, or its slower part where one failed
};

// One input's answer. Not OK: all vectors are empty and `status` says why; neighbours are not affected.
struct EmbedResult {
  absl::Status status;
  std::vector<float> text;   // f32 [D]; empty where the input had no text
  std::vector<float> image;  // f32 [D]; empty where the input had no image
  std::vector<float> fused;  // f32 [D]; pair calls only
  uint32_t token_count = 0;  // tokens run, special tokens included
  bool truncated = false;
  StageTimes times;
};

struct EmbedResponse {
  std::string model;
  std::string model_revision;
  std::vector<EmbedResult> results;  // as many as inputs, in their order
};

// Runs exactly once on a completion thread when Submit returned OK; never otherwise.
using Completion = absl::AnyInvocable<void(EmbedResponse) &&>;

// How a loaded model compared with the reference vectors its configuration names.
struct SelfCheckResult {
  double lowest_cosine = 1;  // over all entries; -1: one was not finite or zero
  bool passed = true;
};

struct ModelInfo {
  std::string name;
  std::string revision;  // content hash of the weights, short
  bool is_default = false;
  bool text = false;
  bool image = false;
  bool pair = false;
  uint32_t dimensions = 0;       // D of every vector
  uint32_t max_tokens = 0;       // special tokens included; 0: no text
  uint32_t vocabulary_size = 0;  // token ids must be below it; 0: no text
  uint32_t image_width = 0;      // what images are brought to; 0: no image
  uint32_t image_height = 0;
  bool normalised_by_default = false;
  std::string fusion;        // FusionOptions::kind; empty: no pairs
  std::string compute_type;  // of the text encoder: "fp32", "bf16", "fp16", "int8"; "bf16, fp16" where replicas differ
  std::string image_compute_type;  // of the image encoder; empty: no images
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;                      // of all replicas
  std::vector<uint32_t> matryoshka_dimensions = {};  // shorter vectors it is trained for, rising, each below dimensions
  std::vector<std::string> prompt_names = {};        // sorted
  std::string default_prompt = {};                   // one of prompt_names; empty: none
  std::optional<SelfCheckResult> self_check = {};    // unset: the configuration names no reference vectors
  // Of a shared space: the model's own score of a text and an image is logit_scale * cosine + logit_bias, of which CLIP
  // takes a softmax over its candidates and SigLIP a sigmoid. 0: the model says none.
  double logit_scale = 0;
  double logit_bias = 0;
};

}  // namespace tributary
