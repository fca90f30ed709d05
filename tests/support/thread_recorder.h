// On which threads the steps of a pipeline run, by the names the system knows them by.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "engine/pipeline/pipeline.h"
#include "tests/support/thread_name.h"

namespace tributary {

// Thread-safety: all methods from any thread.
class ThreadRecorder {
 public:
  // The calling thread does `step`.
  void Record(const std::string& step) {
    std::lock_guard lock(mutex_);
    threads_[step].insert(CurrentThreadName());
  }
  std::set<std::string> ThreadsOf(const std::string& step) {
    std::lock_guard lock(mutex_);
    return threads_[step];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> threads_;
};

// Records its thread as "tokenise" or "decode", then prepares as `inner` does.
template <typename Preparer, typename Input, typename Output, typename... More>
class RecordedPreparer final : public Preparer {
 public:
  RecordedPreparer(std::string step, std::unique_ptr<Preparer> inner, ThreadRecorder* threads)
      : step_(std::move(step)), inner_(std::move(inner)), threads_(threads) {}
  absl::StatusOr<Output> Prepare(const Input& input, More... more) const override {
    threads_->Record(step_);
    return inner_->Prepare(input, more...);
  }

 private:
  const std::string step_;
  const std::unique_ptr<Preparer> inner_;
  ThreadRecorder* const threads_;
};

// "stage" and "run".
class RecordedProgram final : public BatchProgram {
 public:
  RecordedProgram(std::unique_ptr<BatchProgram> inner, ThreadRecorder* threads)
      : inner_(std::move(inner)), threads_(threads) {}
  uint32_t OutputDimension() const override { return inner_->OutputDimension(); }
  uint64_t MaxBatchUnits() const override { return inner_->MaxBatchUnits(); }
  size_t MaxBatchItems() const override { return inner_->MaxBatchItems(); }
  size_t MaxInputBytes() const override { return inner_->MaxInputBytes(); }
  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    threads_->Record("stage");
    return inner_->Stage(batch, input);
  }
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    threads_->Record("run");
    return inner_->Run(staged, input, output);
  }

 private:
  const std::unique_ptr<BatchProgram> inner_;
  ThreadRecorder* const threads_;
};

// Every preparer and program of the parts records its threads from now on. `threads` outlives the pipeline.
inline void RecordThreads(PipelineParts& parts, ThreadRecorder* threads) {
  using Text = RecordedPreparer<TextPreparer, TextInput, TokenSequence, Truncation>;
  using Image = RecordedPreparer<ImagePreparer, ImageInput, PixelBlock>;
  for (ServedModel& model : parts.models) {
    model.text_preparer = std::make_unique<Text>("tokenise", std::move(model.text_preparer), threads);
    model.image_preparer = std::make_unique<Image>("decode", std::move(model.image_preparer), threads);
    for (auto& replicas : model.replicas) {
      for (ProgramReplica& replica : replicas) {
        replica.program = std::make_unique<RecordedProgram>(std::move(replica.program), threads);
      }
    }
  }
}

}  // namespace tributary
