#include "engine/pipeline/request_state.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/vector_check.h"

namespace tributary {
namespace {

constexpr TimePoint kNotReached{};

// 0 unless both moments were reached.
Duration Between(TimePoint from, TimePoint to) {
  return from == kNotReached || to == kNotReached ? Duration{0} : std::max(Duration{0}, to - from);
}

}  // namespace

absl::Status ModelRoute::CheckOptions(const EmbedOptions& options) const {
  const std::vector<uint32_t>& shorter = info.matryoshka_dimensions;
  const uint32_t asked = options.dimensions;
  if (asked != 0 && asked != info.dimensions && std::find(shorter.begin(), shorter.end(), asked) == shorter.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimensions is ", asked, ", model '", info.name, "' gives ",
                     shorter.empty() ? "" : absl::StrCat(absl::StrJoin(shorter, ", "), " or "), info.dimensions,
                     shorter.empty() ? " only" : ""));
  }
  const std::string name = options.prompt_name.value_or("");
  if (name.empty() || prompts.contains(name)) return absl::OkStatus();
  // The names it has come first: the message is cut at its end, and the name asked for may be of any length.
  return absl::InvalidArgumentError(
      info.prompt_names.empty()
          ? absl::StrCat("model '", info.name, "' has no prompts, prompt_name is '", name, "'")
          : absl::StrCat("prompts of model '", info.name, "' are ", absl::StrJoin(info.prompt_names, ", "),
                         "; prompt_name is '", name, "'"));
}

std::string_view ModelRoute::PromptFor(const EmbedOptions& options) const {
  const std::string& name = options.prompt_name ? *options.prompt_name : info.default_prompt;
  const auto found = name.empty() ? prompts.end() : prompts.find(name);
  return found == prompts.end() ? std::string_view() : std::string_view(found->second);
}

StageTimes ToStageTimes(const ItemTimes& times, TimePoint now) {
  StageTimes stages;
  stages.prepare_wait = Between(times.admitted, times.prepare_start);
  stages.prepare = Between(times.prepare_start, times.queued);
  stages.queue = Between(times.queued, times.batched);
  stages.lane = Between(times.batched, times.compute_start);
  stages.compute = Between(times.compute_start, times.compute_end);
  stages.total = Between(times.admitted, now);
  return stages;
}

RequestState::RequestState(EmbedRequest request, Completion done, Permit permit,
                           std::shared_ptr<const ModelRoute> route, RequestHost* host, const Clock* clock,
                           Observer* observer)
    : request_(std::move(request)),
      done_(std::move(done)),
      permit_(std::move(permit)),
      route_(std::move(route)),
      host_(host),
      clock_(clock),
      observer_(observer),
      admitted_(clock->Now()),
      normalise_(request_.options.normalise.value_or(route_->info.normalised_by_default)),
      dimensions_(request_.options.dimensions == route_->info.dimensions ? 0 : request_.options.dimensions),
      results_(request_.inputs.size()),
      inputs_left_(request_.inputs.size()) {
  if (request_.kind == RequestKind::kPair) {
    for (const EmbedInput& input : request_.inputs) pairs_.push_back(std::make_unique<Pair>(input));
  }
}

RequestState::~RequestState() {
  if (!done_) return;
  // Nothing here takes memory but what the completion does.
  EmbedResponse response;
  response.results = std::move(results_);
  for (EmbedResult& result : response.results) {
    result = EmbedResult();
    result.status = absl::Status(absl::StatusCode::kInternal, {});
  }
  try {
    std::move(done_)(std::move(response));
  } catch (const std::exception&) {
    // It had its turn.
  }
}

WorkItemPtr RequestState::NewItem(size_t input_index, Modality modality) {
  auto item = std::make_unique<WorkItem>(shared_from_this());
  item->modality = modality;
  item->encoder = route_->encoders[static_cast<size_t>(modality)];
  item->priority = request_.options.priority;
  item->normalise = normalise_;
  const bool part = request_.kind == RequestKind::kPair && modality != Modality::kFusion;
  item->dimensions = part ? 0 : dimensions_;
  item->input_index = static_cast<uint32_t>(input_index);
  item->deadline = request_.options.deadline;
  item->cancel = request_.cancel;
  item->times.admitted = admitted_;
  return item;
}

void RequestState::FailInput(size_t input_index, absl::Status status) {
  FinishInput(results_[input_index], std::move(status));
}

void RequestState::OnItemDone(const WorkItem& item, absl::Status status, std::vector<float> embedding) {
  try {
    TakeItem(item, std::move(status), std::move(embedding));
  } catch (const std::exception&) {
    // No memory. The request answers when its last item has let go of it.
  }
}

void RequestState::TakeItem(const WorkItem& item, absl::Status status, std::vector<float> embedding) {
  if (Retry(item)) return;
  if (item.retried) observer_->OnRetried(item.modality, status.ok());
  const StageTimes times = ToStageTimes(item.times, clock_->Now());
  observer_->OnItem({item.modality, status.code(), times});
  EmbedResult& result = results_[item.input_index];
  if (item.modality == Modality::kFusion) return OnFused(item, std::move(status), std::move(embedding), times);
  if (const auto* tokens = std::get_if<TokenSequence>(&item.prepared)) {
    result.token_count = static_cast<uint32_t>(tokens->ids.size());
    result.truncated = tokens->truncated;
  }
  if (request_.kind == RequestKind::kPair) {
    return OnPartDone(item, std::move(status), std::move(embedding), times);
  }
  result.times = times;
  (item.modality == Modality::kText ? result.text : result.image) = std::move(embedding);
  FinishInput(result, std::move(status));
}

bool RequestState::Retry(const WorkItem& item) {
  const std::optional<EncoderIndex>& fallback = route_->fallbacks[static_cast<size_t>(item.modality)];
  if (!item.bad_vector || item.retried || !fallback) return false;
  Prepared prepared;
  WorkItemPtr again;
  try {
    prepared = item.prepared;
    again = NewItem(item.input_index, item.modality);
  } catch (const std::bad_alloc&) {
    return false;
  }
  again->encoder = *fallback;
  again->retried = true;
  again->units = item.units;
  again->prepared = std::move(prepared);
  again->times.prepare_start = item.times.prepare_start;
  again->times.queued = clock_->Now();
  host_->Enqueue(std::move(again));
  return true;
}

void RequestState::OnPartDone(const WorkItem& item, absl::Status status, std::vector<float> embedding,
                              const StageTimes& times) {
  Pair& pair = *pairs_[item.input_index];
  const size_t part = item.modality == Modality::kText ? FusionJoin::kText : FusionJoin::kImage;
  pair.part_times[part] = times;
  if (!pair.join.Arrive(part, std::move(status), std::move(embedding))) return;

  // The last part: this thread alone goes on with the pair.
  EmbedResult& result = results_[item.input_index];
  result.times = *std::max_element(pair.part_times.begin(), pair.part_times.end(),
                                   [](const StageTimes& a, const StageTimes& b) { return a.total < b.total; });
  if (absl::Status failed = pair.join.status(); !failed.ok()) return FinishInput(result, std::move(failed));
  FusionParts parts;
  for (const auto& [index, modality] :
       {std::pair(FusionJoin::kText, Modality::kText), std::pair(FusionJoin::kImage, Modality::kImage)}) {
    absl::StatusOr<std::vector<float>> normalised = pair.join.NormalisedPart(index);
    if (!normalised.ok()) {
      observer_->OnBadVector(modality);
      return FinishInput(result, normalised.status());
    }
    parts.parts[index] = *std::move(normalised);
  }
  result.text = pair.join.TakePart(FusionJoin::kText);
  result.image = pair.join.TakePart(FusionJoin::kImage);
  for (const auto& [vector, modality] :
       {std::pair(&result.text, Modality::kText), std::pair(&result.image, Modality::kImage)}) {
    if (absl::Status bad = CutPart(*vector); !bad.ok()) {
      observer_->OnBadVector(modality);
      return FinishInput(result, std::move(bad));
    }
  }
  WorkItemPtr fusion = NewItem(item.input_index, Modality::kFusion);
  fusion->units = 1;
  fusion->prepared = std::move(parts);
  fusion->times.queued = clock_->Now();
  host_->Enqueue(std::move(fusion));
}

absl::Status RequestState::CutPart(std::vector<float>& part) const {
  if (dimensions_ == 0 || part.empty()) return absl::OkStatus();
  part.resize(dimensions_);
  return CheckAndNormalise(part, normalise_);
}

void RequestState::OnFused(const WorkItem& item, absl::Status status, std::vector<float> embedding,
                           const StageTimes& times) {
  EmbedResult& result = results_[item.input_index];
  result.times.fusion = Between(item.times.queued, clock_->Now());
  result.times.total = times.total;
  result.fused = std::move(embedding);
  FinishInput(result, std::move(status));
}

void RequestState::FinishInput(EmbedResult& result, absl::Status status) {
  if (!status.ok()) {
    result.text.clear();
    result.image.clear();
    result.fused.clear();
  }
  result.status = std::move(status);
  if (inputs_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) host_->OnAllResults(shared_from_this());
}

void RequestState::Complete() {
  EmbedResponse response;
  response.model = route_->info.name;
  response.model_revision = route_->info.revision;
  response.results = std::move(results_);
  std::exchange(done_, nullptr)(std::move(response));
  request_ = {};
  permit_.GiveBack();
}

}  // namespace tributary
