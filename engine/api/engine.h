// The engine as the server sees it: submit a request, get its completion once. Everything behind it is engine/pipeline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/api/snapshot.h"
#include "engine/api/types.h"

namespace tributary {

// Who calls it: server/embed_service, benchmarks/micro. What it feeds: engine/admission and the stages behind it.
// Invariants: Submit OK => the completion runs exactly once, on a completion thread, also on cancel, deadline, device
//   fault and destruction; Submit not OK => it never runs.
// Thread-safety: all methods from any thread; the destructor once, after the last Submit returned and after the last
//   other call began.
// Ownership: the request (and request.owner) lives until its completion has returned.
class Engine {
 public:
  virtual ~Engine() = default;

  // Returns without blocking. Errors concern the whole call:
  //   NOT_FOUND no such model; UNIMPLEMENTED the model does not serve this kind; INVALID_ARGUMENT no input, or too many
  //   in one call, or dimensions or a prompt the model does not have; DEADLINE_EXCEEDED already expired;
  //   RESOURCE_EXHAUSTED admission limits reached (retry later); UNAVAILABLE draining.
  // Errors of single inputs come in their EmbedResult.
  virtual absl::Status Submit(EmbedRequest request, Completion done) = 0;

  // The served models, the default first. Never empty.
  virtual std::vector<ModelInfo> Models() const = 0;

  // Loads and warms a model on the calling thread (seconds to minutes), beside those that serve, then switches: from
  // then on requests of its name run on it, those in flight end on the model that had the name before, and no request
  // fails for it. The default model stays the default when it is replaced. One load or unload at a time; others wait.
  // The destructor waits for a load that runs.
  // Errors: those of loading, with the model's name in front (what served before serves on); INVALID_ARGUMENT options
  //   that Validate refuses; RESOURCE_EXHAUSTED max_models, or no memory for its staging; UNAVAILABLE draining;
  //   UNIMPLEMENTED the engine was built without a loader.
  virtual absl::StatusOr<ModelInfo> LoadModel(const ModelOptions& options) = 0;

  // No new requests for the model (NOT_FOUND): then `on_removed`, where there is one, is run on the calling thread.
  // Those in flight end on it; then its memory is given back, and that of models of its name that it replaced. Waits
  // for that at most `timeout`; other loads and unloads do not wait for it.
  // Errors: NOT_FOUND no such model; FAILED_PRECONDITION it is the default; DEADLINE_EXCEEDED requests are still in
  //   flight: the rest goes on by itself; UNAVAILABLE the engine goes down.
  virtual absl::Status UnloadModel(const std::string& name, Duration timeout,
                                   const std::function<void()>& on_removed) = 0;

  // A consistent-enough picture for gauges and health; cheap (no lock is held while work runs).
  virtual EngineSnapshot Snapshot() const = 0;

  // From now on Submit answers UNAVAILABLE; what is in flight goes on. Idempotent.
  virtual void StopAdmitting() = 0;

  // Waits until no request is in flight, at most `timeout`. True: idle.
  virtual bool WaitUntilIdle(Duration timeout) = 0;
};

}  // namespace tributary
