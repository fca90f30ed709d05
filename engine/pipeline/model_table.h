// The models that serve, by name, and those that are on their way out. Between Submit, which looks a model up, and
// loading and unloading, which change what it finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/types.h"
#include "engine/base/mutex.h"
#include "engine/base/worker_thread.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/request_state.h"
#include "engine/prepare/prepare_pool.h"

namespace tributary {

// A model, ready: what its requests need on their way, and the parts that do the work.
struct Served {
  bool serves(RequestKind kind) const;

  ModelRoute route;
  std::vector<EncoderIndex> encoders;  // those of `route` that it has
  ModelPreparers preparers;            // of `parts`
  ServedModel parts;
  uint64_t number = 0;           // given by the table, never twice
  std::unique_ptr<Served> next;  // of the list of those that leave
};

// A model serves from Put until Remove, or until another one is Put under its name. Requests hold the model they found
// until their completion has run; when the last one has let go, the table's thread ("trib-retire") takes the model out
// of the engine and destroys it: neither is for a completion thread, or for whoever unloads.
// Invariants: a model is destroyed once, after `retire` said that nothing runs on it; the default is never removed.
// Thread-safety: Put and Remove from one thread at a time; Close from the owner; the rest from any thread.
// Ownership: outlives whoever holds a model.
class ModelTable {
 public:
  // Takes the model's encoders out of scheduler and lanes, waiting for batches in flight. False: the engine is going
  // down, and the model must be kept until Close().
  using Retire = std::function<bool(const Served&)>;

  explicit ModelTable(Retire retire) : retire_(std::move(retire)) {}
  ~ModelTable() { Close(); }

  // Starts the thread. Once.
  void Start();
  // Stops it and destroys all models; nothing may hold one any more. Idempotent.
  void Close();

  // Empty: the default model. nullptr: there is no such model.
  std::shared_ptr<const Served> Find(const std::string& name) const;
  std::vector<ModelInfo> List() const;

  // An index that no encoder has. For the model that is Put next: its indices are free again when it is gone.
  EncoderIndex TakeEncoderIndex();
  // Serves this model from now on, in place of the one that has its name, if any. The first one is the default.
  void Put(std::unique_ptr<Served> model);
  // Its number. NOT_FOUND: there is no such model; FAILED_PRECONDITION: it is the default.
  absl::StatusOr<uint64_t> Remove(const std::string& name);

  // Waits until the model is destroyed, and with it those that had its name before, at most `timeout`. False: they are
  // not, or StopWaiting was called.
  bool WaitUntilGone(const std::string& name, uint64_t number, Duration timeout);
  void StopWaiting();

  size_t ServingCount() const;
  // With those on their way out.
  size_t LivingCount() const;

 private:
  void Loop();
  void Leave(std::unique_ptr<Served> model);
  bool Living(const std::string& name, uint64_t number) const TRIBUTARY_REQUIRES(mutex_);

  const Retire retire_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<const Served>> serving_ TRIBUTARY_GUARDED_BY(mutex_);  // the default first
  std::unique_ptr<Served> leaving_ TRIBUTARY_GUARDED_BY(mutex_);         // a list: nothing holds these any more
  std::map<uint64_t, std::string> living_ TRIBUTARY_GUARDED_BY(mutex_);  // names by number
  std::vector<EncoderIndex> free_indices_ TRIBUTARY_GUARDED_BY(mutex_);
  EncoderIndex next_index_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
  uint64_t last_number_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  bool waiting_stopped_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Served> kept_;  // a list, of the table's thread, then Close: not retired
  WorkerThread thread_;
};

}  // namespace tributary
