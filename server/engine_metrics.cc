#include "server/engine_metrics.h"

#include <string>

#include "server/metric_sheet.h"

namespace tributary {
namespace {

void CollectSnapshot(const EngineSnapshot& snapshot, MetricSheet& sheet) {
  auto set = [&sheet](MetricId id, auto value) { sheet.Set(id, {}, static_cast<double>(value)); };
  set(MetricId::kAdmissionRequestsInFlight, snapshot.requests_in_flight);
  set(MetricId::kAdmissionItemsInFlight, snapshot.items_in_flight);
  set(MetricId::kAdmissionItemsCapacity, snapshot.items_capacity);
  set(MetricId::kAdmissionBytesInFlight, snapshot.bytes_in_flight);
  set(MetricId::kAdmissionBytesCapacity, snapshot.bytes_capacity);
  set(MetricId::kAdmissionDraining, snapshot.draining ? 1 : 0);
  set(MetricId::kPrepareDepth, snapshot.prepare_depth_items);
  for (Modality m : kAllModalities) {
    const QueueSnapshot& queue = snapshot.queues[static_cast<size_t>(m)];
    const std::string modality(ModalityName(m));
    sheet.Set(MetricId::kQueueDepth, {modality}, static_cast<double>(queue.depth_items));
    sheet.Set(MetricId::kQueueCapacity, {modality}, static_cast<double>(queue.capacity_items));
    sheet.Set(MetricId::kQueueOldestAge, {modality}, ToSeconds(queue.oldest_age));
  }
  for (MetricId id : {MetricId::kLaneBusy, MetricId::kLaneIdle, MetricId::kLaneInfo, MetricId::kLaneRunning,
                      MetricId::kLaneBatchesInFlight}) {
    sheet.Declare(id);
  }
  for (size_t l = 0; l < snapshot.lanes.size(); ++l) {
    const LaneSnapshot& lane = snapshot.lanes[l];
    const std::string name = std::to_string(l);
    for (size_t m = 0; m < kModalityCount; ++m) {
      sheet.Set(MetricId::kLaneBusy, {name, std::string(ModalityName(kAllModalities[m]))}, ToSeconds(lane.busy[m]));
    }
    for (size_t c = 0; c < kIdleCauseCount; ++c) {
      sheet.Set(MetricId::kLaneIdle, {name, std::string(IdleCauseName(static_cast<IdleCause>(c)))},
                ToSeconds(lane.idle[c]));
    }
    sheet.Set(MetricId::kLaneInfo, {name, lane.device}, 1);
    sheet.Set(MetricId::kLaneRunning, {name}, ToSeconds(lane.running_for));
    sheet.Set(MetricId::kLaneBatchesInFlight, {name}, static_cast<double>(lane.batches_in_flight));
  }
}

// "text+image+pair"
std::string Modalities(const ModelInfo& model) {
  std::string served;
  auto add = [&served](bool serves, const char* name) {
    if (serves) served += (served.empty() ? "" : "+") + std::string(name);
  };
  add(model.text, "text");
  add(model.image, "image");
  add(model.pair, "pair");
  return served;
}

void CollectModels(const std::vector<ModelInfo>& models, MetricSheet& sheet) {
  for (MetricId id : {MetricId::kModelInfo, MetricId::kModelParameters, MetricId::kModelParameterBytes,
                      MetricId::kModelSelfCheckCosine, MetricId::kModelSelfCheckPassed}) {
    sheet.Declare(id);
  }
  for (const ModelInfo& model : models) {
    sheet.Set(MetricId::kModelInfo,
              {model.name, model.revision, model.is_default ? "true" : "false", Modalities(model),
               std::to_string(model.dimensions), model.compute_type, model.image_compute_type, model.fusion},
              1);
    sheet.Set(MetricId::kModelParameters, {model.name}, static_cast<double>(model.parameter_count));
    sheet.Set(MetricId::kModelParameterBytes, {model.name}, static_cast<double>(model.parameter_bytes));
    if (!model.self_check) continue;
    sheet.Set(MetricId::kModelSelfCheckCosine, {model.name}, model.self_check->lowest_cosine);
    sheet.Set(MetricId::kModelSelfCheckPassed, {model.name}, model.self_check->passed ? 1 : 0);
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> EngineMetrics::Collect() const {
  MetricSheet sheet;
  CollectSnapshot(engine_ == nullptr ? EngineSnapshot{} : engine_->Snapshot(), sheet);
  CollectModels(engine_ == nullptr ? std::vector<ModelInfo>{} : engine_->Models(), sheet);
  return sheet.Take();
}

}  // namespace tributary
