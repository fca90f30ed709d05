#include "engine/pipeline/pipeline.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/admission/admission.h"
#include "engine/base/bounded_queue.h"
#include "engine/base/worker_thread.h"
#include "engine/lane/lane_set.h"
#include "engine/pipeline/request_state.h"
#include "engine/prepare/prepare_pool.h"
#include "engine/queue/drop_item.h"
#include "engine/queue/modality_queue.h"
#include "engine/schedule/batch_scheduler.h"

namespace tributary {
namespace {

// Preparation threads when the options do not say: enough to keep lanes fed, few enough to leave them their cores.
constexpr size_t kMaxDefaultPrepareThreads = 4;
// Of the completion queue: answers to interactive requests, then to bulk ones.
constexpr size_t kCompletionClasses = 2;

size_t Index(Modality modality) { return static_cast<size_t>(modality); }

// What a served model's items need on their way.
struct Served {
  ModelRoute route;
  ModelPreparers preparers;
  bool serves(RequestKind kind) const {
    switch (kind) {
      case RequestKind::kText:
        return route.info.text;
      case RequestKind::kImage:
        return route.info.image;
      case RequestKind::kPair:
        return route.info.pair;
    }
    return false;
  }
};

std::string_view KindName(RequestKind kind) {
  switch (kind) {
    case RequestKind::kText:
      return "texts";
    case RequestKind::kImage:
      return "images";
    case RequestKind::kPair:
      return "pairs";
  }
  return "?";
}

// Whether this input of a call of `kind` sends an item through the modality's queue.
bool SendsItem(const EmbedInput& input, RequestKind kind, Modality modality) {
  switch (modality) {
    case Modality::kText:
      return kind != RequestKind::kImage && input.text.has_value();
    case Modality::kImage:
      return kind != RequestKind::kText && input.image.has_value();
    case Modality::kFusion:
      return kind == RequestKind::kPair && (input.text || input.image);
  }
  return false;
}

size_t InputBytes(const EmbedInput& input) {
  size_t bytes = 0;
  if (input.text) {
    bytes += input.text->token_ids ? input.text->token_ids->size_bytes() : input.text->text.size();
  }
  if (input.image) bytes += input.image->raw_rgb ? input.image->raw_rgb->bytes.size() : input.image->encoded.size();
  return bytes;
}

// The engine. Members in the order of the flow; the destructor takes it down in the same order.
class Pipeline final : public Engine, public RequestHost {
 public:
  Pipeline(const EngineOptions& options, PipelineParts parts, Clock* clock, Observer* observer)
      : options_(options),
        parts_(std::move(parts)),
        clock_(clock),
        observer_(observer),
        admission_(options.admission),
        completions_(options.admission.max_items, kCompletionClasses) {}

  ~Pipeline() override;
  absl::Status Start();

  absl::Status Submit(EmbedRequest request, Completion done) override;
  std::vector<ModelInfo> Models() const override;
  EngineSnapshot Snapshot() const override;
  void StopAdmitting() override { admission_.StopAdmitting(); }
  bool WaitUntilIdle(Duration timeout) override { return admission_.WaitUntilIdle(timeout); }

 private:
  absl::StatusOr<EncoderSpec> SpecOf(const ServedModel& model, Modality modality) const;
  absl::StatusOr<const Served*> FindServed(const EmbedRequest& request) const;
  void SendItems(const std::shared_ptr<RequestState>& state, const Served& served);
  void PushPrepared(WorkItemPtr item);

  void StartFusion(WorkItemPtr item) override { PushPrepared(std::move(item)); }
  void OnAllResults(std::shared_ptr<RequestState> state) override;

  const EngineOptions options_;
  const PipelineParts parts_;
  Clock* const clock_;
  Observer* const observer_;
  std::vector<Served> served_;  // as parts_.models

  Admission admission_;
  std::unique_ptr<PreparePool> prepare_;
  std::array<std::unique_ptr<ModalityQueue<WorkItemPtr>>, kModalityCount> queues_;
  std::unique_ptr<BatchScheduler> scheduler_;
  std::unique_ptr<LaneSet> lanes_;
  // At most one entry a request, and a request holds at least one admitted item: a push cannot fail.
  BoundedQueue<std::shared_ptr<RequestState>> completions_;
  std::vector<WorkerThread> completion_threads_;
};

// What the scheduler must know of one modality of the model, which serves it.
absl::StatusOr<EncoderSpec> Pipeline::SpecOf(const ServedModel& model, Modality modality) const {
  const BatchOptions& batch = options_.schedule.modalities[Index(modality)];
  EncoderSpec spec{.modality = modality, .replicas = {}};
  for (const ProgramReplica& replica : model.replicas[Index(modality)]) {
    if (replica.device >= parts_.devices.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model '", model.info.name, "': ", std::string(ModalityName(modality)), " is placed on device ",
                       replica.device, " of ", parts_.devices.size()));
    }
    const BatchProgram& program = *replica.program;
    const uint64_t max_units = batch.max_units == 0 ? program.MaxBatchUnits() : batch.max_units;
    spec.replicas.push_back({replica.device, &program, std::min(max_units, program.MaxBatchUnits()),
                             std::min(batch.max_items, program.MaxBatchItems())});
  }
  return spec;
}

absl::Status Pipeline::Start() {
  if (parts_.models.empty()) return absl::InvalidArgumentError("models: at least one model is needed");
  std::vector<SlotSize> slot_sizes(parts_.devices.size());  // as parts_.devices
  std::vector<EncoderSpec> encoders;
  for (const ServedModel& model : parts_.models) {
    Served served;
    served.route.info = model.info;
    served.preparers = {model.text_preparer.get(), model.image_preparer.get()};
    for (const Modality modality : kAllModalities) {
      if (model.replicas[Index(modality)].empty()) continue;
      absl::StatusOr<EncoderSpec> spec = SpecOf(model, modality);
      if (!spec.ok()) return spec.status();
      served.route.encoders[Index(modality)] = static_cast<EncoderIndex>(encoders.size());
      for (const ReplicaSpec& replica : spec->replicas) slot_sizes[replica.device].CoverProgram(*replica.program);
      encoders.push_back(*std::move(spec));
    }
    auto has = [&](Modality modality) { return !model.replicas[Index(modality)].empty(); };
    ModelInfo& info = served.route.info;
    info.is_default = served_.empty();
    info.text = has(Modality::kText) && model.text_preparer != nullptr;
    info.image = has(Modality::kImage) && model.image_preparer != nullptr;
    info.pair = info.text && info.image && has(Modality::kFusion);
    served.route.prompts = model.prompts;
    info.prompt_names.clear();
    for (const auto& [name, text] : model.prompts) info.prompt_names.push_back(name);
    served_.push_back(std::move(served));
  }

  std::vector<LaneGroup> groups;
  for (size_t i = 0; i < parts_.devices.size(); ++i) {
    const DeviceParts& device = parts_.devices[i];
    groups.push_back({device.device.get(), device.lane_count, device.slots_per_lane, slot_sizes[i]});
  }
  absl::StatusOr<std::unique_ptr<LaneSet>> lanes = LaneSet::Create(groups, clock_, observer_);
  if (!lanes.ok()) return lanes.status();
  lanes_ = *std::move(lanes);
  std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> queues{};
  for (const Modality modality : kAllModalities) {
    queues_[Index(modality)] = std::make_unique<ModalityQueue<WorkItemPtr>>(
        std::max<size_t>(1, options_.admission.max_modality_items[Index(modality)]));
    queues[Index(modality)] = queues_[Index(modality)].get();
  }
  for (size_t i = 0; i < std::max<size_t>(1, options_.completion_threads); ++i) {
    completion_threads_.emplace_back(absl::StrCat("trib-done-", i), [this] {
      while (auto state = completions_.Pop()) {
        try {
          (*state)->Complete();
        } catch (...) {
          // The caller's completion threw, or memory ran out. The state gives the permit back as it is destroyed.
        }
      }
    });
  }
  scheduler_ =
      std::make_unique<BatchScheduler>(options_.schedule, std::move(encoders), queues, lanes_.get(), clock_, observer_);
  scheduler_->Start();
  const size_t threads =
      options_.prepare.threads != 0 ? options_.prepare.threads : std::min(kMaxDefaultPrepareThreads, UsableCpuCount());
  prepare_ = std::make_unique<PreparePool>(options_.admission.max_items, options_.limits, clock_, observer_,
                                           [this](WorkItemPtr item) { PushPrepared(std::move(item)); });
  prepare_->Start(threads);
  return absl::OkStatus();
}

// Down the flow, so that every stage can still hand on what it holds:
//  1. nothing new comes in; 2. preparation drops what waits there; 3. the scheduler drops what it and the queues hold;
//  4. the lanes run what was handed over (a pair's last part may still push a fusion item); 5. the queues are empty
//  again; 6. the completion threads run every completion. What remains holds no item.
Pipeline::~Pipeline() {
  admission_.StopAdmitting();
  if (prepare_) prepare_->Stop();
  if (scheduler_) scheduler_->Stop();
  lanes_.reset();
  for (const auto& queue : queues_) {
    while (queue) {
      std::optional<WorkItemPtr> item = queue->TryPop();
      if (!item) break;
      DropItem(**item, DropReason::kShutdown, observer_);
    }
  }
  completions_.Close();
  completion_threads_.clear();
}

absl::StatusOr<const Served*> Pipeline::FindServed(const EmbedRequest& request) const {
  const std::string& name = request.options.model;
  const auto found = name.empty() ? served_.begin()
                                  : std::find_if(served_.begin(), served_.end(),
                                                 [&](const Served& s) { return s.route.info.name == name; });
  if (found == served_.end()) return absl::NotFoundError(absl::StrCat("no model '", name, "' is served"));
  if (!found->serves(request.kind)) {
    return absl::UnimplementedError(
        absl::StrCat("model '", found->route.info.name, "' does not serve ", std::string(KindName(request.kind))));
  }
  return &*found;
}

absl::Status Pipeline::Submit(EmbedRequest request, Completion done) {
  absl::StatusOr<const Served*> served = FindServed(request);
  if (!served.ok()) return served.status();
  const size_t inputs = request.inputs.size();
  if (inputs == 0) return absl::InvalidArgumentError("the call has no input");
  if (inputs > options_.admission.max_inputs_per_call) {
    return absl::InvalidArgumentError(
        absl::StrCat("the call has ", inputs, " inputs; the limit is ", options_.admission.max_inputs_per_call));
  }
  if (absl::Status status = (*served)->route.CheckOptions(request.options); !status.ok()) return status;
  if (clock_->Now() >= request.options.deadline) {
    return absl::DeadlineExceededError("the deadline had passed when the call arrived");
  }

  Admission::ItemCounts items{};
  size_t bytes = 0;
  for (const EmbedInput& input : request.inputs) {
    bool sends = false;
    for (const Modality modality : kAllModalities) {
      if (!SendsItem(input, request.kind, modality)) continue;
      ++items[Index(modality)];
      sends = true;
    }
    // An empty input sends nothing, but its request is in flight all the same and must be bounded.
    if (!sends) ++items[Index(request.kind == RequestKind::kImage ? Modality::kImage : Modality::kText)];
    bytes += InputBytes(input);
  }
  RejectReason reason{};
  absl::StatusOr<Permit> permit = admission_.TryAdmit(request.kind, items, bytes, &reason);
  if (!permit.ok()) {
    observer_->OnRejected(request.kind, reason);
    return permit.status();
  }
  size_t item_count = 0;
  for (const size_t count : items) item_count += count;
  observer_->OnAdmitted(request.kind, item_count, bytes);
  SendItems(std::make_shared<RequestState>(std::move(request), std::move(done), *std::move(permit), &(*served)->route,
                                           this, clock_, observer_),
            **served);
  return absl::OkStatus();
}

void Pipeline::SendItems(const std::shared_ptr<RequestState>& state, const Served& served) {
  // The last item sent may complete the request, which then lets go of its inputs: input i is not read after that.
  const EmbedRequest& request = state->request();
  const RequestKind kind = request.kind;
  const Truncation truncation = request.options.truncation;
  const std::string_view prompt = served.route.PromptFor(request.options);
  const bool prompt_named = !request.options.prompt_name.value_or("").empty();
  const size_t count = request.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const EmbedInput& input = request.inputs[i];
    const bool text = SendsItem(input, kind, Modality::kText);
    const bool image = SendsItem(input, kind, Modality::kImage);
    if (text && input.text->token_ids && prompt_named) {
      state->FailInput(i, absl::InvalidArgumentError("prompt_name is given, but the text comes as token_ids, which run "
                                                     "as they are"));
      continue;
    }
    if (text) {
      TextInput with_prompt = *input.text;
      if (!with_prompt.token_ids) with_prompt.prompt = prompt;
      prepare_->Submit({state->NewItem(i, Modality::kText), with_prompt, truncation, &served.preparers});
    }
    if (image) {
      prepare_->Submit({state->NewItem(i, Modality::kImage), *input.image, truncation, &served.preparers});
    }
    if (!text && !image) {
      state->FailInput(i, absl::InvalidArgumentError(kind == RequestKind::kText    ? "the input has no text"
                                                     : kind == RequestKind::kImage ? "the input has no image"
                                                                                   : "the pair has neither text nor "
                                                                                     "image"));
    }
  }
}

void Pipeline::PushPrepared(WorkItemPtr item) {
  if (queues_[Index(item->modality)]->TryPush(std::move(item))) {
    scheduler_->NotifyQueued();
  } else {
    // The permit covers the queue, so this is a bug; the item still gets its answer.
    // A refused entry stays as it was. NOLINTNEXTLINE(bugprone-use-after-move)
    item->Fail(absl::InternalError("a modality queue was full behind admission"));
  }
}

void Pipeline::OnAllResults(std::shared_ptr<RequestState> state) {
  const size_t of_class = state->request().options.priority == Priority::kBulk ? 1 : 0;
  completions_.TryPush(std::move(state), of_class);
}

std::vector<ModelInfo> Pipeline::Models() const {
  std::vector<ModelInfo> models;
  models.reserve(served_.size());
  for (const Served& served : served_) models.push_back(served.route.info);
  return models;
}

EngineSnapshot Pipeline::Snapshot() const {
  EngineSnapshot snapshot;
  const TimePoint now = clock_->Now();
  // Down the flow, so that an item that moves on meanwhile is seen.
  IdleCause waiting_for = prepare_->Busy() ? IdleCause::kPreparing : IdleCause::kNoWork;
  for (const Modality modality : kAllModalities) {
    QueueSnapshot& queue = snapshot.queues[Index(modality)];
    const WaitingSnapshot waiting = scheduler_->Waiting(modality);
    queue.depth_items = queues_[Index(modality)]->SizeApprox() + waiting.items;
    queue.capacity_items = queues_[Index(modality)]->capacity();
    if (waiting.items > 0) queue.oldest_age = std::max(Duration{0}, now - waiting.oldest_queued);
    if (queue.depth_items > 0) waiting_for = IdleCause::kScheduling;
  }
  snapshot.lanes = lanes_->Snapshot(waiting_for, now);
  snapshot.requests_in_flight = admission_.requests_in_flight();
  snapshot.items_in_flight = admission_.items_in_flight();
  snapshot.bytes_in_flight = admission_.bytes_in_flight();
  snapshot.items_capacity = options_.admission.max_items;
  snapshot.bytes_capacity = options_.admission.max_bytes;
  snapshot.prepare_depth_items = prepare_->DepthItems();
  snapshot.draining = admission_.draining();
  return snapshot;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> CreatePipeline(const EngineOptions& options, PipelineParts parts, Clock* clock,
                                                       Observer* observer) {
  // The stages take their threads and memory here, and the library throws where the system refuses one. What has been
  // started by then ends with the pipeline.
  try {
    auto pipeline = std::make_unique<Pipeline>(options, std::move(parts), clock, observer);
    if (absl::Status status = pipeline->Start(); !status.ok()) return status;
    return pipeline;
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("the engine cannot start: ", error.what()));
  }
}

}  // namespace tributary
