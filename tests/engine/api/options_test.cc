#include "engine/api/options.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tests/support/catch.h"

namespace tributary {
namespace {

EngineOptions Valid() {
  EngineOptions options;
  options.models.resize(1);
  options.models[0].name = "default";
  options.models[0].text.folder = "models/text";
  return options;
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("the defaults with one named text model are valid") { REQUIRE(Validate(Valid()).ok()); }

TEST_CASE("a wrong option is refused with its key, its rule and its value") {
  struct Row {
    std::function<void(EngineOptions&)> spoil;
    std::string message;
  };
  const std::vector<Row> rows = {
      {[](auto& o) { o.admission.max_items = 0; }, "admission.max_items must be > 0, is 0"},
      {[](auto& o) { o.admission.max_bytes = 0; }, "admission.max_bytes must be > 0, is 0"},
      {[](auto& o) { o.admission.max_modality_items[1] = 0; },
       "admission.max_modality_items.image must be 1..16777216, is 0"},
      {[](auto& o) { o.admission.max_modality_items[2] = 20000000; },
       "admission.max_modality_items.fusion must be 1..16777216, is 20000000"},
      {[](auto& o) { o.admission.max_inputs_per_call = 0; }, "admission.max_inputs_per_call must be > 0, is 0"},
      {[](auto& o) { o.limits.max_text_bytes = 0; }, "limits.max_text_bytes must be > 0, is 0"},
      {[](auto& o) { o.limits.max_text_tokens = 0; }, "limits.max_text_tokens must be > 0, is 0"},
      {[](auto& o) { o.limits.max_image_bytes = 0; }, "limits.max_image_bytes must be > 0, is 0"},
      {[](auto& o) { o.limits.max_image_pixels = 0; }, "limits.max_image_pixels must be > 0, is 0"},
      {[](auto& o) { o.prepare.threads = 5000; }, "prepare.threads must be 0..1024, is 5000"},
      {[](auto& o) { o.schedule.modalities[0].max_units = 32769; },
       "schedule.text.max_units must be 0..32768, is 32769"},
      {[](auto& o) { o.schedule.modalities[1].max_units = 16777217; },
       "schedule.image.max_units must be 0..16777216, is 16777217"},
      {[](auto& o) { o.schedule.modalities[2].max_units = 4097; },
       "schedule.fusion.max_units must be 0..4096, is 4097"},
      {[](auto& o) { o.schedule.modalities[0].max_items = 0; }, "schedule.text.max_items must be 1..4096, is 0"},
      {[](auto& o) { o.schedule.modalities[2].max_items = 4097; },
       "schedule.fusion.max_items must be 1..4096, is 4097"},
      {[](auto& o) { o.schedule.modalities[0].weight = -1; }, "schedule.text.weight must be > 0, is -1"},
      {[](auto& o) { o.schedule.modalities[1].weight = std::nan(""); }, "schedule.image.weight must be > 0, is nan"},
      {[](auto& o) { o.schedule.modalities[1].weight = std::numeric_limits<double>::infinity(); },
       "schedule.image.weight must be finite, is inf"},
      {[](auto& o) { o.schedule.modalities[2].max_wait = std::chrono::milliseconds(-5); },
       "schedule.fusion.max_wait_millis must be >= 0, is -5"},
      {[](auto& o) { o.schedule.modalities[0].max_batch_time = Duration(0); },
       "schedule.text.max_batch_millis must be > 0, is 0"},
      {[](auto& o) { o.schedule.batching = "lifo"; },
       "schedule.batching must be packed, fifo or fifo_padded, is \"lifo\""},
      {[](auto& o) { o.schedule.bulk_every = 2; }, "schedule.bulk_every must be >= 3, is 2"},
      {[](auto& o) { o.lanes.device = "gpu"; }, "lanes.device must be auto, cpu, cuda or cuda:N, is \"gpu\""},
      {[](auto& o) { o.lanes.device = "cuda:"; }, "lanes.device must be auto, cpu, cuda or cuda:N, is \"cuda:\""},
      {[](auto& o) { o.lanes.device = "cuda:-1"; }, "lanes.device must be auto, cpu, cuda or cuda:N, is \"cuda:-1\""},
      {[](auto& o) { o.lanes.count = 2000; }, "lanes.count must be 0..1024, is 2000"},
      {[](auto& o) { o.lanes.slots = 65; }, "lanes.slots must be 0..64, is 65"},
      {[](auto& o) { o.lanes.cpu_affinity = {0, -2}; }, "lanes.cpu_affinity[1] must be 0..1023, is -2"},
      {[](auto& o) { o.completion_threads = 0; }, "completion_threads must be 1..1024, is 0"},
      {[](auto& o) { o.models.clear(); }, "models must be a list of at least one model, is empty"},
      {[](auto& o) { o.models[0].name = ""; }, "models[0].name must be given, is empty"},
      {[](auto& o) { o.max_models = 0; }, "max_models must be 1..4096, is 0"},
      {[](auto& o) { o.models.resize(65, o.models[0]); }, "models must be at most 64 (max_models), is 65"},
      {[](auto& o) { o.models.push_back(o.models[0]); }, "models[1].name must be unique, is \"default\" again"},
      {[](auto& o) { o.models[0].text.folder = ""; },
       "models[0].folder must be given where text.folder and image.folder are not, is empty"},
      {[](auto& o) {
         o.models[0].text.folder = "";
         o.models[0].image.folder = "models/image";
         o.models[0].image.labels = "labels.txt";
       },
       "models[0].text.folder must be given where image.labels is, is empty"},
      {[](auto& o) { o.models[0].matryoshka_dimensions = {64, 32}; },
       "models[0].matryoshka_dimensions[1] must be 65..65536 (the list rises), is 32"},
      {[](auto& o) { o.models[0].matryoshka_dimensions = {0}; },
       "models[0].matryoshka_dimensions[0] must be 1..65536 (the list rises), is 0"},
      {[](auto& o) { o.models[0].text.dtype = "int4"; },
       "models[0].text.dtype must be auto, fp32, bf16, fp16 or int8, is \"int4\""},
      {[](auto& o) { o.models[0].image.dtype = ""; },
       "models[0].image.dtype must be auto, fp32, bf16, fp16 or int8, is \"\""},
      {[](auto& o) { o.models[0].image.label_template = "a photo"; },
       "models[0].image.label_template must be a text with {name} in it, is \"a photo\""},
      {[](auto& o) { o.models[0].image.top_classes = 0; }, "models[0].image.top_classes must be > 0, is 0"},
      {[](auto& o) { o.models[0].text.placement = {"cpu", "gpu:1"}; },
       "models[0].text.placement[1] must be auto, cpu, cuda or cuda:N, is \"gpu:1\""},
      {[](auto& o) { o.models[0].image.placement = {"cpu", "cuda", "cpu"}; },
       "models[0].image.placement[2] must be another device than the others, is \"cpu\" again"},
      {[](auto& o) { o.models[0].fusion.placement.assign(65, "cpu"); },
       "models[0].fusion.placement must be at most 64 devices, is 65"},
      {[](auto& o) { o.models[0].fusion.kind = "sum"; },
       "models[0].fusion.kind must be weighted_mean, hadamard, concat_projection, gated or cross_attention, or empty, "
       "is \"sum\""},
      {[](auto& o) { o.models[0].fusion.kind = "gated"; },
       "models[0].fusion.folder must be given where fusion.kind is gated, is empty"},
      {[](auto& o) { o.models[0].fusion.folder = "fusion"; },
       "models[0].fusion.folder must be empty unless fusion.kind is a learned one, is \"fusion\""},
      {[](auto& o) { o.models[0].fusion.text_weight = 1.5; }, "models[0].fusion.text_weight must be 0..1, is 1.5"},
      {[](auto& o) { o.models[0].fusion.text_weight = std::nan(""); },
       "models[0].fusion.text_weight must be 0..1, is nan"},
  };
  for (const Row& row : rows) {
    EngineOptions options = Valid();
    row.spoil(options);
    const absl::Status status = Validate(options);
    CAPTURE(row.message);
    REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
    REQUIRE(MessageOf(status) == row.message);
  }
}

TEST_CASE("one model is checked by itself, under keys of its own") {
  ModelOptions model = Valid().models[0];
  REQUIRE(Validate(model).ok());
  model.text.placement = {"tpu"};
  REQUIRE(MessageOf(Validate(model)) == "model.text.placement[0] must be auto, cpu, cuda or cuda:N, is \"tpu\"");
}

TEST_CASE("devices with an index and a model without pairs are valid") {
  EngineOptions options = Valid();
  options.lanes.device = "cuda:3";
  options.models[0].fusion.kind = "";
  options.models[0].text.placement = {"auto", "cpu", "cuda", "cuda:1"};
  REQUIRE(Validate(options).ok());
}

TEST_CASE("learned fusions with a folder are valid") {
  EngineOptions options = Valid();
  options.models[0].fusion.folder = "fusion";
  for (const char* kind : {"concat_projection", "gated", "cross_attention"}) {
    options.models[0].fusion.kind = kind;
    CAPTURE(kind);
    REQUIRE(Validate(options).ok());
  }
}

}  // namespace
}  // namespace tributary
