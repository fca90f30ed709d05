// One request on its way: collects what its items become, joins pairs, and holds the permit until the completion ran.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/admission/admission.h"
#include "engine/api/observer.h"
#include "engine/api/types.h"
#include "engine/base/clock.h"
#include "engine/fuse/fusion_join.h"
#include "engine/queue/work_item.h"

namespace tributary {

// What one model's requests need to know. Index: Modality. An encoder the model does not have is not asked for.
struct ModelRoute {
  ModelInfo info;
  std::map<std::string, std::string> prompts;  // text by name
  std::array<EncoderIndex, kModalityCount> encoders{};
  std::array<std::optional<EncoderIndex>, kModalityCount> fallbacks{};  // see ServedModel::fallbacks

  // Errors: INVALID_ARGUMENT dimensions or a prompt the model does not have, naming what it has.
  absl::Status CheckOptions(const EmbedOptions& options) const;
  // What stands before the texts of a request with these options; empty: nothing. Borrows from the route.
  std::string_view PromptFor(const EmbedOptions& options) const;
};

class RequestState;

// Where a request's state sends things; implemented by the pipeline. Both run on the thread that completed an item.
class RequestHost {
 public:
  virtual ~RequestHost() = default;
  // The item is prepared and goes to its queue: both parts of a pair are ready, or an item runs once more.
  virtual void Enqueue(WorkItemPtr item) = 0;
  // Every input has its result; the completion is due.
  virtual void OnAllResults(std::shared_ptr<RequestState> state) = 0;
};

// Stage times of an item that was completed at `now`; stages it did not enter stay zero.
StageTimes ToStageTimes(const ItemTimes& times, TimePoint now);

// Made by Pipeline::Submit; the sink of all its items, which keep it alive.
// Invariants: each input gets exactly one result: from its item, or from the one item that retries it; of a pair from
// its
//   fusion item, or from a failed part
//   once all its parts are back; or from FailInput. With the last one OnAllResults is called, once.
// Called with options that the route's CheckOptions found good.
// Thread-safety: OnItemDone from any thread; inputs touch different results, and the parts of one pair meet in their
//   FusionJoin. NewItem and FailInput from the submitting thread. Complete by the completion thread only.
class RequestState final : public ItemSink, public std::enable_shared_from_this<RequestState> {
 public:
  // `route` keeps the model that it is of.
  RequestState(EmbedRequest request, Completion done, Permit permit, std::shared_ptr<const ModelRoute> route,
               RequestHost* host, const Clock* clock, Observer* observer);

  // Where neither Complete() nor anyone else ran the completion (memory ran out on the way): runs it with an error for
  // each input, on whatever thread let go last.
  ~RequestState() override;

  const EmbedRequest& request() const { return request_; }
  // An item for one part of one input; its `prepared` is still to come.
  WorkItemPtr NewItem(size_t input_index, Modality modality);
  // The result of an input that gets no item.
  void FailInput(size_t input_index, absl::Status status);

  void OnItemDone(const WorkItem& item, absl::Status status, std::vector<float> embedding) override;

  // Runs the completion, then lets go of the request's bytes and gives the permit back.
  void Complete();

 private:
  // What is known of a pair while its parts are on their way.
  struct Pair {
    explicit Pair(const EmbedInput& input) : join(input.text.has_value(), input.image.has_value()) {}
    FusionJoin join;
    std::array<StageTimes, 2> part_times;
  };

  void TakeItem(const WorkItem& item, absl::Status status, std::vector<float> embedding);
  // Runs the item once more, on the fallback. False: it has none, has run there, or its vector was not bad.
  bool Retry(const WorkItem& item);
  void OnPartDone(const WorkItem& item, absl::Status status, std::vector<float> embedding, const StageTimes& times);
  void OnFused(const WorkItem& item, absl::Status status, std::vector<float> embedding, const StageTimes& times);
  void FinishInput(EmbedResult& result, absl::Status status);
  // Brings a part of a pair, used at its full size for the fusion, to the size asked for.
  absl::Status CutPart(std::vector<float>& part) const;

  EmbedRequest request_;
  Completion done_;
  Permit permit_;
  const std::shared_ptr<const ModelRoute> route_;
  RequestHost* const host_;
  const Clock* const clock_;
  Observer* const observer_;
  const TimePoint admitted_;
  const bool normalise_;
  const uint32_t dimensions_;  // as WorkItem::dimensions
  std::vector<EmbedResult> results_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // pair calls only
  // acq_rel: every result is visible to the thread that counts the last one down.
  std::atomic<size_t> inputs_left_;
};

}  // namespace tributary
