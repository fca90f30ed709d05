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
#include "engine/pipeline/change_gate.h"
#include "engine/pipeline/encoder_specs.h"
#include "engine/pipeline/model_table.h"
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

absl::Status Draining() { return absl::UnavailableError("the server is draining and changes no models any more"); }

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
        models_([this](const Served& model) { return Retire(model); }),
        admission_(options.admission),
        completions_(options.admission.max_items, kCompletionClasses) {}

  ~Pipeline() override;
  absl::Status Start();

  absl::Status Submit(EmbedRequest request, Completion done) override;
  std::vector<ModelInfo> Models() const override { return models_.List(); }
  absl::StatusOr<ModelInfo> LoadModel(const ModelOptions& options) override;
  absl::Status UnloadModel(const std::string& name, Duration timeout, const std::function<void()>& on_removed) override;
  EngineSnapshot Snapshot() const override;
  void StopAdmitting() override { admission_.StopAdmitting(); }
  bool WaitUntilIdle(Duration timeout) override { return admission_.WaitUntilIdle(timeout); }

 private:
  std::unique_ptr<Served> MakeServed(ServedModel model, const std::vector<EncoderSpec>& specs);
  absl::StatusOr<ModelInfo> Serve(ServedModel model);
  bool Retire(const Served& model);
  absl::StatusOr<std::shared_ptr<const Served>> FindServed(const EmbedRequest& request) const;
  void SendItems(const std::shared_ptr<RequestState>& state, const Served& served);
  void PushPrepared(WorkItemPtr item);

  void Enqueue(WorkItemPtr item) override { PushPrepared(std::move(item)); }
  void OnAllResults(std::shared_ptr<RequestState> state) override;

  const EngineOptions options_;
  PipelineParts parts_;  // its models go to models_
  Clock* const clock_;
  Observer* const observer_;
  ChangeGate changes_;
  ModelTable models_;

  Admission admission_;
  std::unique_ptr<PreparePool> prepare_;
  std::array<std::unique_ptr<ModalityQueue<WorkItemPtr>>, kModalityCount> queues_;
  std::unique_ptr<BatchScheduler> scheduler_;
  std::unique_ptr<LaneSet> lanes_;
  // At most one entry a request, and a request holds at least one admitted item: a push cannot fail.
  BoundedQueue<std::shared_ptr<RequestState>> completions_;
  std::vector<WorkerThread> completion_threads_;
};

// `specs`: the model's, each of which gets an index.
std::unique_ptr<Served> Pipeline::MakeServed(ServedModel model, const std::vector<EncoderSpec>& specs) {
  auto served = std::make_unique<Served>();
  served->parts = std::move(model);
  served->route.info = served->parts.info;
  served->preparers = {served->parts.text_preparer.get(), served->parts.image_preparer.get()};
  for (const EncoderSpec& spec : specs) {
    const EncoderIndex encoder = served->encoders.emplace_back(models_.TakeEncoderIndex());
    if (spec.fallback) {
      served->route.fallbacks[Index(spec.modality)] = encoder;
    } else {
      served->route.encoders[Index(spec.modality)] = encoder;
    }
  }
  const auto has = [&](Modality modality) { return !served->parts.replicas[Index(modality)].empty(); };
  ModelInfo& info = served->route.info;
  info.text = has(Modality::kText) && served->preparers.text != nullptr;
  info.image = has(Modality::kImage) && served->preparers.image != nullptr;
  info.pair = info.text && info.image && has(Modality::kFusion);
  served->route.prompts = served->parts.prompts;
  info.prompt_names.clear();
  for (const auto& [name, text] : served->route.prompts) info.prompt_names.push_back(name);
  return served;
}

absl::Status Pipeline::Start() {
  if (parts_.models.empty()) return absl::InvalidArgumentError("models: at least one model is needed");
  std::vector<SlotSize> slot_sizes(parts_.devices.size());  // as parts_.devices
  std::vector<EncoderSpec> encoders;                        // index: EncoderIndex
  for (ServedModel& model : parts_.models) {
    absl::StatusOr<std::vector<EncoderSpec>> specs = EncoderSpecsOf(model, options_.schedule, parts_.devices.size());
    if (!specs.ok()) return specs.status();
    CoverPrograms(*specs, &slot_sizes);
    models_.Put(MakeServed(std::move(model), *specs));
    encoders.insert(encoders.end(), specs->begin(), specs->end());  // the table counts indices up
  }
  parts_.models.clear();

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
  if (parts_.loader) models_.Start();
  return absl::OkStatus();
}

// Down the flow, so that every stage can still hand on what it holds:
//  1. nothing new comes in, and a load that runs has ended; 2. preparation drops what waits there; 3. the scheduler
//  drops what it and the queues hold; 4. the lanes run what was handed over (a pair's last part may still push a fusion
//  item);
//  5. the queues are empty again; 6. the completion threads run every completion; 7. nothing holds a model any more.
Pipeline::~Pipeline() {
  admission_.StopAdmitting();
  models_.StopWaiting();
  changes_.Close();
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
  models_.Close();
}

absl::StatusOr<std::shared_ptr<const Served>> Pipeline::FindServed(const EmbedRequest& request) const {
  const std::string& name = request.options.model;
  std::shared_ptr<const Served> found = models_.Find(name);
  if (!found) return absl::NotFoundError(absl::StrCat("no model '", name, "' is served"));
  if (!found->serves(request.kind)) {
    return absl::UnimplementedError(
        absl::StrCat("model '", found->route.info.name, "' does not serve ", std::string(KindName(request.kind))));
  }
  return found;
}

absl::Status Pipeline::Submit(EmbedRequest request, Completion done) {
  absl::StatusOr<std::shared_ptr<const Served>> served = FindServed(request);
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
  std::shared_ptr<const ModelRoute> route(*served, &(*served)->route);
  std::shared_ptr<RequestState> state;
  try {
    state = std::make_shared<RequestState>(std::move(request), std::move(done), *std::move(permit), std::move(route),
                                           this, clock_, observer_);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for the request");
  }
  try {
    SendItems(state, **served);
  } catch (const std::exception&) {
    // The request answers by itself once those of its items that were sent have let go of it.
  }
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

absl::StatusOr<ModelInfo> Pipeline::LoadModel(const ModelOptions& options) {
  if (!parts_.loader) return absl::UnimplementedError("this engine loads no models while it runs");
  if (absl::Status status = Validate(options); !status.ok()) return status;
  const ChangeGate::Turn turn(&changes_);
  if (!turn.ok() || admission_.draining()) return Draining();
  // Those on their way out hold memory too: as many again, so that one that is never let go cannot pile them up.
  const bool replaces = models_.Find(options.name) != nullptr;
  if ((!replaces && models_.ServingCount() >= options_.max_models) ||
      models_.LivingCount() >= 2 * options_.max_models) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "model '", options.name, "': ", models_.ServingCount(), " models are served and ",
        models_.LivingCount() - models_.ServingCount(), " are on their way out; max_models is ", options_.max_models));
  }
  try {
    absl::StatusOr<ServedModel> model = parts_.loader(options);
    if (!model.ok()) return model.status();
    if (admission_.draining()) return Draining();
    return Serve(*std::move(model));
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("model '", options.name, "' cannot be loaded: ", error.what()));
  }
}

// From the smallest commitment to the last: memory in the lanes, the scheduler, what Submit finds.
absl::StatusOr<ModelInfo> Pipeline::Serve(ServedModel model) {
  absl::StatusOr<std::vector<EncoderSpec>> specs = EncoderSpecsOf(model, options_.schedule, parts_.devices.size());
  if (!specs.ok()) return specs.status();
  std::vector<SlotSize> slot_sizes(parts_.devices.size());
  CoverPrograms(*specs, &slot_sizes);
  if (absl::Status status = lanes_->Reserve(slot_sizes); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("model '", model.info.name, "': ", status.message()));
  }
  std::unique_ptr<Served> served = MakeServed(std::move(model), *specs);
  for (size_t i = 0; i < specs->size(); ++i) {
    scheduler_->AddEncoder(served->encoders[i], std::move((*specs)[i]));  // it stops after the last load only
  }
  const std::string name = served->route.info.name;
  models_.Put(std::move(served));
  return models_.Find(name)->route.info;
}

// On the table's thread.
bool Pipeline::Retire(const Served& model) {
  try {
    return std::all_of(model.encoders.begin(), model.encoders.end(),
                       [this](EncoderIndex encoder) { return scheduler_->RemoveEncoder(encoder); });
  } catch (const std::exception&) {
    return false;  // no memory: it stays until the engine goes
  }
}

absl::Status Pipeline::UnloadModel(const std::string& name, Duration timeout, const std::function<void()>& on_removed) {
  ChangeGate::Turn turn(&changes_);
  if (!turn.ok()) return Draining();
  const absl::StatusOr<uint64_t> number = models_.Remove(name);
  if (!number.ok()) return number.status();
  turn.LetNext();
  if (on_removed) on_removed();
  if (models_.WaitUntilGone(name, *number, timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("model '", name,
                                                  "' takes no new requests, but some are still in flight; it goes with "
                                                  "the last one"));
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
