// What the lane tests share: batches of texts, a sink and a listener that remember what they were told.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/observer.h"
#include "engine/base/clock.h"
#include "engine/lane/lane_set.h"
#include "engine/schedule/batch_executor.h"
#include "tests/support/fake_model.h"

namespace tributary {

// Thread-safety: all methods from any thread.
class RecordingSink final : public ItemSink {
 public:
  struct Answer {
    absl::Status status;
    std::vector<float> embedding;
    ItemTimes times;
    size_t times_answered = 0;
  };

  void OnItemDone(const WorkItem& item, absl::Status status, std::vector<float> embedding) override {
    std::lock_guard lock(mutex_);
    Answer& answer = answers_[item.input_index];
    answer.status = std::move(status);
    answer.embedding = std::move(embedding);
    answer.times = item.times;
    ++answer.times_answered;
  }
  size_t Count() const {
    std::lock_guard lock(mutex_);
    return answers_.size();
  }
  Answer At(uint32_t input) const {
    std::lock_guard lock(mutex_);
    const auto found = answers_.find(input);
    return found == answers_.end() ? Answer{absl::UnknownError("not answered"), {}, {}, 0} : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, Answer> answers_;
};

// Thread-safety: all methods from any thread.
class RecordingListener final : public BatchListener {
 public:
  void OnBatchDone(const BatchOutcome& outcome) override {
    std::lock_guard lock(mutex_);
    outcomes_.push_back(outcome);
    changed_.notify_all();
  }
  void WaitFor(size_t batches) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcomes_.size() >= batches; });
  }
  std::vector<BatchOutcome> Outcomes() const {
    std::lock_guard lock(mutex_);
    return outcomes_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<BatchOutcome> outcomes_;
};

class RecordingObserver final : public Observer {
 public:
  void OnDropped(Modality /*modality*/, DropReason reason) override {
    std::lock_guard lock(mutex_);
    drops.push_back(reason);
  }
  void OnBatch(const BatchEvent& event) override {
    std::lock_guard lock(mutex_);
    batches.push_back(event);
  }
  void OnBadVector(Modality /*modality*/) override {
    std::lock_guard lock(mutex_);
    ++bad_vectors;
  }

  std::mutex mutex_;
  std::vector<DropReason> drops;
  std::vector<BatchEvent> batches;
  size_t bad_vectors = 0;
};

// Lanes of one device, with room for this program.
inline absl::StatusOr<std::unique_ptr<LaneSet>> MakeLanes(Device* device, const BatchProgram& program,
                                                          size_t lane_count, size_t slots, const Clock* clock,
                                                          Observer* observer) {
  LaneGroup group{.device = device, .lane_count = lane_count, .slots = slots, .slot_size = {}};
  group.slot_size.CoverProgram(program);
  return LaneSet::Create({group}, clock, observer);
}

// Items numbered from `first_input`.
inline Batch MakeTextBatch(const BatchProgram& program, const std::shared_ptr<ItemSink>& sink,
                           const std::vector<std::string>& texts, uint32_t first_input = 0, uint64_t sequence = 1) {
  Batch batch;
  batch.sequence = sequence;
  batch.program = &program;
  for (const std::string& text : texts) {
    auto item = std::make_unique<WorkItem>(sink);
    item->input_index = first_input++;
    item->normalise = false;
    item->units = std::max<size_t>(1, text.size());
    TokenSequence tokens;
    for (const char c : text) tokens.ids.push_back(static_cast<uint8_t>(c));
    if (tokens.ids.empty()) tokens.ids.push_back(0);
    item->prepared = std::move(tokens);
    batch.useful_units += item->units;
    batch.items.push_back(std::move(item));
  }
  return batch;
}

}  // namespace tributary
