// A torch-free model for tests: real preparation, batches, lanes and fusion around vectors made by hashing the content.
// MakeFakePipelineParts() gives everything CreatePipeline() needs. Link tributary_test_fakes.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/pipeline/pipeline.h"
#include "engine/schedule/batch.h"

namespace tributary {

// Inputs that make something go wrong, as a text or as encoded image bytes. Everything else is embedded.
namespace fake {
inline constexpr std::string_view kRefused = "fake:refused";          // preparer: INVALID_ARGUMENT
inline constexpr std::string_view kPreparerThrows = "fake:prepare!";  // preparer: std::runtime_error
inline constexpr std::string_view kStageThrows = "fake:stage!";       // program: Stage throws, the batch fails
inline constexpr std::string_view kRunFails = "fake:run";             // program: Run answers INTERNAL, the batch fails
inline constexpr std::string_view kRunThrows = "fake:run!";           // program: Run throws, the batch fails
inline constexpr std::string_view kNotANumber = "fake:nan";           // program: this row is NaN
inline constexpr std::string_view kZeroVector = "fake:zero";          // program: this row is zero
}  // namespace fake

// Switches and counters shared by the programs of one fake model and the test.
// Thread-safety: all methods from any thread.
class FakeControl {
 public:
  // From now on executions wait inside Run until Release(); with a device: those of its programs. The test must release
  // before it drops the engine.
  void Hold(std::optional<size_t> device = std::nullopt);
  void Release();
  // From now on every batch on this device fails.
  void FailDevice(size_t device);
  // Waits until this many executions have begun (since construction); the test's way to know that a batch is running.
  void WaitUntilBegun(size_t executions);
  // Item counts of the executions begun so far, in order, of one modality.
  std::vector<size_t> BatchSizes(Modality modality) const;
  size_t Begun() const;
  size_t BegunOn(size_t device) const;
  // Executions inside Run at this moment, held ones included, by device.
  size_t RunningOn(size_t device) const;

  // Programs that exist at this moment; waits until there are so many.
  size_t LivingPrograms() const;
  void WaitUntilLivingPrograms(size_t programs);

  // Called by the programs as they are made (1) and destroyed (-1).
  void CountProgram(int change);
  // Called by the programs, at the start and end of Run.
  absl::Status OnRun(Modality modality, size_t device, size_t items);
  void OnRunDone(size_t device);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  struct Execution {
    Modality modality;
    size_t device;
    size_t items;
  };
  size_t programs_ = 0;
  bool held_ = false;
  std::set<size_t> held_devices_;
  std::set<size_t> failing_devices_;
  std::map<size_t, size_t> running_;  // executions by device
  std::vector<Execution> begun_;
};

struct FakeModelOptions {
  ModelInfo info = {.name = "fake",
                    .revision = "f0",
                    .text = true,
                    .image = true,
                    .pair = true,
                    .dimensions = 8,
                    .max_tokens = 64,
                    .vocabulary_size = 256,
                    .image_width = 4,
                    .image_height = 4,
                    .normalised_by_default = true,
                    .fusion = "weighted_mean",
                    .compute_type = "fp32",
                    .image_compute_type = "fp32"};
  std::map<std::string, std::string> prompts = {};
  std::array<uint64_t, kModalityCount> max_batch_units = {512, 256, 64};  // tokens, pixels (16 an image), pairs
  size_t max_batch_items = 64;
  // Execution spins this long (steady clock); tests that need order use FakeControl instead.
  Duration cost_per_batch{0};
  Duration cost_per_item{0};
  // What runs an item once more whose vector was bad: nothing, programs that give it a good one, or programs like the
  // others.
  enum class Fallback : uint8_t { kNone, kGood, kBad } fallback = Fallback::kNone;
  bool bad_vectors = true;  // false: kNotANumber and kZeroVector are texts and images like any other
  uint64_t max_image_pixels = 1 << 20;
  std::array<std::vector<size_t>, kModalityCount> placement = {{{0}, {0}, {0}}};  // devices of each modality
};

// One token per byte of a text (at least one, 0, for the empty text); an image becomes info.image_width x image_height
// pixels made from its bytes. Vectors depend on the content only, not on batch mates, and are not normalised.
ServedModel MakeFakeModel(const FakeModelOptions& options, std::shared_ptr<FakeControl> control);

struct FakeParts {
  PipelineParts parts;
  std::shared_ptr<FakeControl> control;
};

// One fake model on CPU lanes. `clock` must outlive the engine.
FakeParts MakeFakePipelineParts(const Clock* clock, const FakeModelOptions& options = {}, size_t lane_count = 1);

// The vector a text's or encoded image's content gets, not normalised: what a test compares with.
std::vector<float> FakeTextVector(std::string_view text, uint32_t dimensions);
std::vector<float> FakeImageVector(std::string_view encoded, const ModelInfo& info);

}  // namespace tributary
