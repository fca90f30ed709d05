#include "engine/lane/lane.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/vector_check.h"
#include "engine/queue/drop_item.h"

namespace tributary {
namespace {

template <typename Label>
size_t Index(Label label) {
  return static_cast<size_t>(label);
}

// What failed the whole batch, as its items are told it: INTERNAL, whatever code it came with. Of the other codes
// clients conclude that they are to come back later (a device out of memory) or that their input was wrong.
absl::Status BatchError(const absl::Status& enqueue_status, const absl::Status& status) {
  const absl::Status& first = enqueue_status.ok() ? status : enqueue_status;
  return first.ok() ? first : absl::InternalError(first.message());
}

}  // namespace

void SlotSize::CoverProgram(const BatchProgram& program) {
  input_bytes = std::max(input_bytes, program.MaxInputBytes());
  output_bytes = std::max(output_bytes, program.MaxBatchItems() * program.OutputDimension() * sizeof(float));
}

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create(LaneParts parts) {
  std::unique_ptr<Lane> lane(new Lane(parts));
  absl::StatusOr<std::vector<SlotMemory>> memory = lane->AllocateSlots(lane->parts_.slot_size);
  if (!memory.ok()) return memory.status();
  lane->spare_memory_ = *std::move(memory);
  if (absl::Status status = lane->EnsureStream(); !status.ok()) return status;
  lane->thread_ = WorkerThread(absl::StrCat("trib-lane-", lane->parts_.index), [raw = lane.get()] { raw->Loop(); });
  return lane;
}

Lane::Lane(LaneParts parts)
    : parts_(parts),
      shares_memory_(parts_.device->SharesHostMemory()),
      slots_(parts_.slots),
      accounted_until_(parts_.clock->Now()),
      last_end_(accounted_until_) {}

Lane::~Lane() {
  {
    MutexLock lock(mailbox_mutex_);
    closed_ = true;
  }
  mailbox_wake_.NotifyOne();
  thread_.Join();   // has enqueued everything
  stream_.reset();  // has run everything
}

absl::StatusOr<std::vector<SlotMemory>> Lane::AllocateSlots(const SlotSize& size) const {
  std::vector<SlotMemory> slots(parts_.slots);
  auto allocate = [](absl::StatusOr<DeviceBuffer> from, DeviceBuffer& to) -> absl::Status {
    if (!from.ok()) return from.status();
    to = *std::move(from);
    return absl::OkStatus();
  };
  for (SlotMemory& memory : slots) {
    absl::Status status = allocate(parts_.device->AllocatePinned(size.input_bytes), memory.pinned_input);
    status.Update(allocate(parts_.device->AllocatePinned(size.output_bytes), memory.pinned_output));
    memory.device_input = memory.pinned_input;
    memory.device_output = memory.pinned_output;
    if (!shares_memory_) {
      status.Update(allocate(parts_.device->AllocateDevice(size.input_bytes), memory.device_input));
      status.Update(allocate(parts_.device->AllocateDevice(size.output_bytes), memory.device_output));
    }
    if (!status.ok()) return status;
  }
  return slots;
}

void Lane::UseSlots(std::vector<SlotMemory> memory) {
  MutexLock lock(mailbox_mutex_);
  new_memory_.swap(memory);  // what was there and never used goes after the lock
}

absl::Status Lane::EnsureStream() {
  if (stream_) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<DeviceStream>> stream = parts_.device->CreateStream(parts_.index);
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  return absl::OkStatus();
}

void Lane::Execute(Batch batch) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(mailbox_mutex_);
    mailbox_.push_back({std::move(batch), parts_.clock->Now()});
  }
  mailbox_wake_.NotifyOne();
}

LaneSnapshot Lane::Snapshot(IdleCause waiting_for, TimePoint now) const {
  LaneSnapshot snapshot;
  snapshot.device = parts_.device->Name();
  snapshot.batches_in_flight = InFlight();
  snapshot.consecutive_failed_batches = consecutive_failed_.load(std::memory_order_relaxed);
  MutexLock lock(times_mutex_);
  if (running_) {
    AccountUntil(now, &busy_[Index(*running_)]);
    snapshot.running_for = std::max(Duration{0}, now - running_since_);
  } else {
    const IdleCause cause = snapshot.batches_in_flight > 0 ? IdleCause::kStaging : waiting_for;
    if (cause == IdleCause::kNoWork || cause == last_look_) AccountUntil(now, &idle_[Index(cause)]);
    last_look_ = cause;
  }
  snapshot.busy = busy_;
  snapshot.idle = idle_;
  snapshot.since_batch = std::max(Duration{0}, now - last_end_);
  return snapshot;
}

void Lane::Loop() {
  for (;;) {
    Handed handed;
    std::vector<SlotMemory> memory;
    {
      MutexLock lock(mailbox_mutex_);
      while (mailbox_.empty() && !closed_) mailbox_wake_.Wait(mailbox_mutex_);
      if (mailbox_.empty()) return;
      handed = std::move(mailbox_.front());
      mailbox_.pop_front();
      memory.swap(new_memory_);
    }
    if (!memory.empty()) spare_memory_ = std::move(memory);
    Take(std::move(handed));
  }
}

void Lane::Take(Handed handed) {
  Slot& slot = slots_[next_slot_];
  if (SlotMemory& spare = spare_memory_[next_slot_]; spare.pinned_input.data) {
    static_cast<SlotMemory&>(slot) = std::exchange(spare, {});
  }
  slot.batch = std::move(handed.batch);
  slot.staged = {};
  slot.handed_at = handed.at;
  slot.started_at = slot.ended_at = {};
  slot.enqueue_status = slot.status = absl::OkStatus();

  // The last look before it costs compute.
  const TimePoint now = parts_.clock->Now();
  std::erase_if(slot.batch.items, [&](const WorkItemPtr& item) {
    const std::optional<DropReason> reason = DeadReason(*item, now);
    if (!reason) return false;
    slot.batch.useful_units -= item->units;
    DropItem(*item, *reason, parts_.observer);
    return true;
  });
  if (!slot.batch.items.empty()) {
    slot.enqueue_status = EnsureStream();
    if (slot.enqueue_status.ok()) slot.enqueue_status = Stage(slot);
    if (slot.enqueue_status.ok()) {
      next_slot_ = (next_slot_ + 1) % slots_.size();
      Enqueue(slot);
      return;
    }
    CompleteItems(slot);
  }
  Leave(slot);
}

absl::Status Lane::Stage(Slot& slot) {
  const BatchProgram& program = *slot.batch.program;
  try {
    absl::StatusOr<StagedBatch> staged =
        program.Stage(slot.batch, {slot.pinned_input.data.get(), slot.pinned_input.bytes});
    if (!staged.ok()) return staged.status();
    slot.staged = *std::move(staged);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("staging the batch failed: ", error.what()));
  }
  const size_t output_bytes = slot.staged.batch_size * program.OutputDimension() * sizeof(float);
  if (slot.staged.input_bytes > slot.pinned_input.bytes || output_bytes > slot.pinned_output.bytes) {
    return absl::InternalError(absl::StrCat("a batch of ", slot.staged.batch_size, " rows and ",
                                            slot.staged.input_bytes, " input bytes does not fit its staging slot"));
  }
  return absl::OkStatus();
}

// Whatever is refused on the way, the done event is recorded: only then the slot is known to be free.
void Lane::Enqueue(Slot& slot) {
  const BatchProgram* program = slot.batch.program;
  const size_t output_bytes = slot.staged.batch_size * program->OutputDimension() * sizeof(float);
  auto event = [this, &slot](void (Lane::*handler)(Slot&, const absl::Status&, TimePoint)) -> EventCallback {
    return [this, &slot, handler](const absl::Status& status, TimePoint at) { (this->*handler)(slot, status, at); };
  };
  absl::Status status;
  auto then = [&status](auto enqueue) {
    if (status.ok()) status = enqueue();
  };
  if (!shares_memory_) {
    then([&] {
      return stream_->CopyIn(slot.device_input.data.get(), slot.pinned_input.data.get(), slot.staged.input_bytes);
    });
  }
  then([&] { return stream_->Record(event(&Lane::OnStarted)); });
  then([&] {
    return stream_->Launch([program, &slot] {
      return program->Run(slot.staged, slot.device_input.data.get(), slot.device_output.data.get());
    });
  });
  if (!shares_memory_) {
    then([&] { return stream_->Record(event(&Lane::OnEnded)); });
    then([&] { return stream_->CopyOut(slot.pinned_output.data.get(), slot.device_output.data.get(), output_bytes); });
  }
  slot.enqueue_status = status;
  if (absl::Status refused = stream_->Record(event(&Lane::OnDone)); !refused.ok()) {
    stream_.reset();  // runs what it holds; after that nothing uses the slot
    OnDone(slot, refused, parts_.clock->Now());
  }
}

void Lane::OnStarted(Slot& slot, const absl::Status& status, TimePoint at) {
  slot.status.Update(status);
  slot.running = true;
  slot.started_at = at;
  MutexLock lock(times_mutex_);
  AccountForGap(slot);
  running_ = slot.batch.modality;
  running_since_ = at;
}

void Lane::OnEnded(Slot& slot, const absl::Status& status, TimePoint at) {
  slot.status.Update(status);
  if (!std::exchange(slot.running, false)) return;
  slot.ended_at = std::max(at, slot.started_at);
  MutexLock lock(times_mutex_);
  AccountUntil(slot.ended_at, &busy_[Index(slot.batch.modality)]);
  running_.reset();
  last_end_ = slot.ended_at;
}

void Lane::OnDone(Slot& slot, const absl::Status& status, TimePoint at) {
  OnEnded(slot, status, at);
  CompleteItems(slot);
  Leave(slot);
}

// Cuts the gap before this batch by what its own first items were doing: not yet admitted, not yet prepared, not yet in
// this lane's hands, being staged.
void Lane::AccountForGap(const Slot& slot) {
  TimePoint admitted = TimePoint::max();
  TimePoint queued = TimePoint::max();
  for (const WorkItemPtr& item : slot.batch.items) {
    admitted = std::min(admitted, item->times.admitted);
    queued = std::min(queued, item->times.queued);
  }
  const std::array<TimePoint, kIdleCauseCount> ends = {admitted, queued, slot.handed_at, slot.started_at};
  for (size_t cause = 0; cause < kIdleCauseCount; ++cause) {
    AccountUntil(std::min(ends[cause], slot.started_at), &idle_[cause]);
  }
  last_look_.reset();
}

// The time not yet accounted for, up to `end`, goes to `total`.
void Lane::AccountUntil(TimePoint end, Duration* total) const {
  if (end > accounted_until_) *total += end - std::exchange(accounted_until_, end);
}

void Lane::CompleteItems(Slot& slot) {
  const absl::Status status = BatchError(slot.enqueue_status, slot.status);
  BatchEvent event;
  event.lane = parts_.index;
  event.modality = slot.batch.modality;
  event.items = slot.batch.items.size();
  event.useful_units = slot.batch.useful_units;
  event.computed_units = slot.staged.computed_units;
  event.device_time = slot.ended_at - slot.started_at;
  event.status = status;
  parts_.observer->OnBatch(event);

  for (size_t i = 0; i < slot.batch.items.size(); ++i) {
    try {
      CompleteItem(slot, i, status);
    } catch (const std::exception& error) {
      // Out of memory, or the item's sink threw; in the second case it has had its answer, and this does nothing.
      slot.batch.items[i]->Fail(absl::InternalError(absl::StrCat("its vector was lost: ", error.what())));
    }
  }
}

void Lane::CompleteItem(const Slot& slot, size_t index, const absl::Status& batch_status) {
  WorkItem& item = *slot.batch.items[index];
  item.times.compute_start = slot.started_at;
  item.times.compute_end = slot.ended_at;
  if (!batch_status.ok()) return item.Fail(batch_status);
  const size_t dimension = slot.batch.program->OutputDimension();
  const auto* rows = reinterpret_cast<const float*>(slot.pinned_output.data.get());
  const size_t row = slot.staged.row_of_item.empty() ? index : slot.staged.row_of_item[index];
  const size_t kept = item.dimensions == 0 ? dimension : std::min<size_t>(item.dimensions, dimension);
  std::vector<float> vector(rows + row * dimension, rows + row * dimension + kept);
  absl::Status good = CheckAndNormalise(vector, item.normalise);
  if (good.ok()) return item.Complete(std::move(vector));
  parts_.observer->OnBadVector(item.modality);
  item.bad_vector = true;
  item.Fail(std::move(good));
}

void Lane::Leave(Slot& slot) {
  BatchOutcome outcome = OutcomeOf(slot.batch, parts_.index);
  outcome.computed_units = slot.staged.computed_units;
  outcome.device_time = slot.ended_at - slot.started_at;
  outcome.status = BatchError(slot.enqueue_status, slot.status);
  slot.batch = {};
  if (!outcome.status.ok()) {
    consecutive_failed_.fetch_add(1, std::memory_order_relaxed);
  } else if (outcome.items > 0) {
    consecutive_failed_.store(0, std::memory_order_relaxed);
  }
  // Release: from here on the lane thread may stage the next batch into this slot.
  in_flight_.fetch_sub(1, std::memory_order_release);
  if (listener_ != nullptr) listener_->OnBatchDone(outcome);
}

}  // namespace tributary
