// Lanes that run nothing by themselves: the test looks at the batches they hold and finishes them by hand.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "engine/schedule/batch_executor.h"

namespace tributary {

// Each lane takes `slots` batches: one that "runs" and slots - 1 in advance.
// Thread-safety: none; one thread drives scheduler and puppet.
class PuppetExecutor final : public BatchExecutor {
 public:
  explicit PuppetExecutor(size_t lanes = 1, size_t slots = 2)
      : device_of_lane_(lanes, 0), lanes_(lanes), slots_(slots) {}
  // One lane for each entry: its device.
  explicit PuppetExecutor(std::vector<size_t> devices)
      : device_of_lane_(std::move(devices)), lanes_(device_of_lane_.size()), slots_(2) {}

  void SetListener(BatchListener* listener) override { listener_ = listener; }
  size_t LaneCount() const override { return lanes_.size(); }
  size_t DeviceOf(size_t lane) const override { return device_of_lane_[lane]; }
  size_t FreeSlots(size_t lane) const override { return slots_ - lanes_[lane].size(); }
  size_t InFlight(size_t lane) const override { return lanes_[lane].size(); }
  void Execute(size_t lane, Batch batch) override {
    ++executed_;
    lanes_[lane].push_back(std::move(batch));
  }

  // The batches a lane holds, the running one first.
  const std::deque<Batch>& held(size_t lane = 0) const { return lanes_[lane]; }
  size_t executed() const { return executed_; }

  // Ends the running batch of the lane: completes its items (or fails them with `status`) and reports it. Returns it,
  // its items done.
  Batch Finish(size_t lane, Duration device_time, absl::Status status = absl::OkStatus()) {
    Batch batch = std::move(lanes_[lane].front());
    lanes_[lane].pop_front();
    BatchOutcome outcome = OutcomeOf(batch, lane);
    outcome.computed_units = batch.useful_units;
    outcome.device_time = device_time;
    outcome.status = status;
    for (const WorkItemPtr& item : batch.items) {
      if (status.ok()) {
        item->Complete({1.0f});
      } else {
        item->Fail(status);
      }
    }
    listener_->OnBatchDone(outcome);
    return batch;
  }

 private:
  const std::vector<size_t> device_of_lane_;
  std::vector<std::deque<Batch>> lanes_;
  const size_t slots_;
  size_t executed_ = 0;
  BatchListener* listener_ = nullptr;
};

}  // namespace tributary
