#include "server/config_fields.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tributary {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
// What a gRPC message or answer can be: sizes inside gRPC are int.
constexpr uint64_t kMaxMessage = std::numeric_limits<int32_t>::max();
constexpr double kDayMillis = 24.0 * 3600 * 1000;

absl::Status Expected(const std::string& what, const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", found '", text, "'"));
}

// Whole numbers without an exponent.
std::string NumberText(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? absl::StrCat(static_cast<int64_t>(value))
                                                              : absl::StrCat(value);
}

// Collects fields; one method per type.
class Table {
 public:
  template <typename T>
  void Integer(const std::string& key, T* value, uint64_t low, uint64_t high) {
    const std::string range = absl::StrCat(low, "..", high);
    Add({.key = key,
         .type = "integer",
         .range = range,
         .set =
             [=](const std::string& text) {
               uint64_t parsed = 0;
               if (!absl::SimpleAtoi(text, &parsed) || parsed < low || parsed > high) {
                 return Expected("an integer in " + range, text);
               }
               *value = static_cast<T>(parsed);
               return absl::OkStatus();
             },
         .print = [=] { return absl::StrCat(*value); }});
  }

  void Number(const std::string& key, double* value, double low, double high) {
    Ranged(key, "a number in ", low, high, [=](double number) { *value = number; }, [=] { return *value; });
  }

  // The key ends in _millis; fractions are allowed.
  void Millis(const std::string& key, Duration* value, double low, double high) {
    Ranged(
        key, "milliseconds in ", low, high, [=](double millis) { *value = FromSeconds(millis / 1000); },
        [=] { return ToSeconds(*value) * 1000; });
  }

  void Flag(const std::string& key, bool* value) {
    Add({.key = key,
         .type = "true/false",
         .range = "",
         .set =
             [=](const std::string& text) {
               if (text != "true" && text != "false") return Expected("true or false", text);
               *value = text == "true";
               return absl::OkStatus();
             },
         .print = [=] { return std::string(*value ? "true" : "false"); }});
  }

  void Text(const std::string& key, std::string* value) {
    Add({.key = key,
         .type = "text",
         .range = "",
         .set =
             [=](const std::string& text) {
               *value = text;
               return absl::OkStatus();
             },
         .print = [=] { return *value; }});
  }

  void Path(const std::string& key, std::string* value) {
    Text(key, value);
    fields_.back().type = "path";
    fields_.back().is_path = true;
  }

  void Choice(const std::string& key, std::string* value, const std::vector<std::string>& choices) {
    auto append = [](std::string* out, const std::string& choice) { out->append(choice.empty() ? "empty" : choice); };
    const std::string range = absl::StrJoin(choices, ", ", append);
    Add({.key = key,
         .type = "text",
         .range = range,
         .set =
             [=](const std::string& text) {
               for (const std::string& choice : choices) {
                 if (text == choice) {
                   *value = text;
                   return absl::OkStatus();
                 }
               }
               return Expected("one of " + range, text);
             },
         .print = [=] { return *value; }});
  }

  // Text form: "0,1,3".
  void IntegerList(const std::string& key, std::vector<int>* value, int low, int high) {
    const std::string range = absl::StrCat("each ", low, "..", high);
    Add({.key = key,
         .type = "list of integers",
         .range = range,
         .is_list = true,
         .set =
             [=](const std::string& text) {
               std::vector<int> parsed;
               for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
                 int number = 0;
                 if (!absl::SimpleAtoi(part, &number) || number < low || number > high) {
                   return Expected("integers, " + range, text);
                 }
                 parsed.push_back(number);
               }
               *value = std::move(parsed);
               return absl::OkStatus();
             },
         .print = [=] { return absl::StrCat("[", absl::StrJoin(*value, ", "), "]"); }});
  }

  // Text form: "cuda:0,cpu". Entries without comma or blank.
  void TextList(const std::string& key, std::vector<std::string>* value) {
    Add({.key = key,
         .type = "list of texts",
         .range = "",
         .is_list = true,
         .set =
             [=](const std::string& text) {
               *value = absl::StrSplit(text, ',', absl::SkipWhitespace());
               for (std::string& entry : *value) absl::StripAsciiWhitespace(&entry);
               return absl::OkStatus();
             },
         .print = [=] { return absl::StrCat("[", absl::StrJoin(*value, ", "), "]"); }});
  }

  // As TextList.
  void PathList(const std::string& key, std::vector<std::string>* value) {
    TextList(key, value);
    fields_.back().type = "list of paths";
    fields_.back().is_path = true;
  }

  std::vector<ConfigField> Take() { return std::move(fields_); }

 private:
  template <typename Store, typename Load>
  void Ranged(const std::string& key, const std::string& expected, double low, double high, Store store, Load load) {
    const std::string range = absl::StrCat(NumberText(low), "..", NumberText(high));
    Add({.key = key,
         .type = "number",
         .range = range,
         .set =
             [=](const std::string& text) {
               double parsed = 0;
               if (!absl::SimpleAtod(text, &parsed) || !(parsed >= low && parsed <= high)) {
                 return Expected(expected + range, text);
               }
               store(parsed);
               return absl::OkStatus();
             },
         .print = [=] { return NumberText(load()); }});
  }
  void Add(ConfigField field) { fields_.push_back(std::move(field)); }
  std::vector<ConfigField> fields_;
};

void AddServer(ServerConfig* config, Table* table) {
  GrpcServerOptions& server = config->server;
  table->Text("server.listen", &server.listen);
  table->Integer("server.max_request_bytes", &server.max_request_bytes, 1024, kMaxMessage);
  table->Integer("server.max_response_bytes", &server.max_response_bytes, 65536, kMaxMessage);
  table->Integer("server.max_unsent_answer_bytes", &server.max_unsent_answer_bytes, 65536, 1024 * kGiB);
  table->Integer("server.stream_window_inputs", &server.stream_window_inputs, 1, 65536);
  table->Integer("server.max_streams_per_connection", &server.max_streams_per_connection, 1, 1 << 20);
  table->Integer("server.memory_quota_bytes", &server.memory_quota_bytes, 16 << 20, 1024 * kGiB);
  table->Millis("server.keepalive_time_millis", &server.keepalive_time, 1000, kDayMillis);
  table->Millis("server.keepalive_timeout_millis", &server.keepalive_timeout, 100, kDayMillis);
  table->Millis("server.min_client_ping_interval_millis", &server.min_client_ping_interval, 0, kDayMillis);
  table->Millis("server.max_connection_age_millis", &server.max_connection_age, 0, kDayMillis);
  table->Millis("server.max_connection_idle_millis", &server.max_connection_idle, 0, kDayMillis);
  table->Path("server.tls.certificate", &server.tls.certificate);
  table->Path("server.tls.key", &server.tls.key);
  table->Path("server.tls.client_ca", &server.tls.client_ca);
  table->Text("admin.listen", &config->admin.listen);
  table->Path("admin.token_file", &config->admin.token_file);
  table->Millis("lifecycle.drain_timeout_millis", &config->lifecycle.drain_timeout, 0, kDayMillis);
  table->Millis("health.check_interval_millis", &config->health.check_interval, 10, 60000);
  table->Millis("health.max_batch_millis", &config->health.max_batch_time, 1, kDayMillis);
  table->Millis("health.max_queue_age_millis", &config->health.max_queue_age, 1, kDayMillis);
  table->Text("metrics.listen", &config->metrics.listen);
  table->Flag("metrics.gpu.enabled", &config->metrics.gpu_enabled);
  table->Text("metrics.gpu.library", &config->metrics.gpu_library);
  table->Millis("metrics.gpu.period_millis", &config->metrics.gpu_period, 10, kDayMillis);
  table->Choice("log.level", &config->log.level, {"debug", "info", "warning", "error", "off"});
  table->Integer("log.max_errors_per_second", &config->log.max_errors_per_second, 0, 1000000);
}

void AddEngine(EngineOptions* engine, Table* table) {
  table->Integer("admission.max_items", &engine->admission.max_items, 1, 1 << 24);
  table->Integer("admission.max_bytes", &engine->admission.max_bytes, 1, 1024 * kGiB);
  for (const Modality modality : kAllModalities) {
    table->Integer("admission.max_modality_items." + std::string(ModalityName(modality)),
                   &engine->admission.max_modality_items[static_cast<size_t>(modality)], 1, 1 << 24);
  }
  table->Integer("admission.max_inputs_per_call", &engine->admission.max_inputs_per_call, 1, 1 << 20);
  table->Integer("limits.max_text_bytes", &engine->limits.max_text_bytes, 1, kMaxMessage);
  table->Integer("limits.max_text_tokens", &engine->limits.max_text_tokens, 1, 1 << 24);
  table->Integer("limits.max_image_bytes", &engine->limits.max_image_bytes, 1, kMaxMessage);
  table->Integer("limits.max_image_pixels", &engine->limits.max_image_pixels, 1, 1024 * kGiB);
  table->Integer("prepare.threads", &engine->prepare.threads, 0, 1024);
  for (const Modality modality : kAllModalities) {
    const std::string prefix = "schedule." + std::string(ModalityName(modality)) + ".";
    BatchOptions& batch = engine->schedule.modalities[static_cast<size_t>(modality)];
    table->Integer(prefix + "max_units", &batch.max_units, 0, kMaxBatchUnits[static_cast<size_t>(modality)]);
    table->Integer(prefix + "max_items", &batch.max_items, 1, kMaxBatchItems);
    table->Number(prefix + "weight", &batch.weight, 0.001, 1000);
    table->Millis(prefix + "max_wait_millis", &batch.max_wait, 0, 60000);
    table->Millis(prefix + "max_batch_millis", &batch.max_batch_time, 0.1, 600000);
  }
  table->Flag("schedule.drop_late", &engine->schedule.drop_late);
  table->Choice("schedule.batching", &engine->schedule.batching, {"packed", "fifo", "fifo_padded"});
  table->Integer("schedule.bulk_every", &engine->schedule.bulk_every, 3, 1 << 20);
  table->Text("lanes.device", &engine->lanes.device);
  table->Integer("lanes.count", &engine->lanes.count, 0, 1024);
  table->Integer("lanes.slots", &engine->lanes.slots, 0, 64);
  table->IntegerList("lanes.cpu_affinity", &engine->lanes.cpu_affinity, 0, 1023);
  table->Integer("completion_threads", &engine->completion_threads, 1, 1024);
  table->Path("cache_folder", &engine->cache_folder);
  table->Integer("max_models", &engine->max_models, 1, kMaxModels);
  table->PathList("op_libraries", &engine->op_libraries);
}

}  // namespace

std::vector<ConfigField> ConfigFields(ServerConfig* config) {
  Table table;
  AddServer(config, &table);
  AddEngine(&config->engine, &table);
  return table.Take();
}

std::vector<ConfigField> ModelFields(ModelOptions* model) {
  const std::vector<std::string> dtypes = {"auto", "fp32", "bf16", "fp16", "int8"};
  Table table;
  table.Text("name", &model->name);
  table.Path("folder", &model->folder);
  table.IntegerList("matryoshka_dimensions", &model->matryoshka_dimensions, 1, kMaxDimensions);
  table.Path("text.folder", &model->text.folder);
  table.Choice("text.dtype", &model->text.dtype, dtypes);
  table.Integer("text.max_tokens", &model->text.max_tokens, 0, 1 << 20);
  table.Text("text.default_prompt", &model->text.default_prompt);
  table.TextList("text.placement", &model->text.placement);
  table.Path("image.folder", &model->image.folder);
  table.Choice("image.dtype", &model->image.dtype, dtypes);
  table.Path("image.labels", &model->image.labels);
  table.Text("image.label_template", &model->image.label_template);
  table.Integer("image.top_classes", &model->image.top_classes, 1, 100000);
  table.TextList("image.placement", &model->image.placement);
  table.Choice("fusion.kind", &model->fusion.kind,
               {"weighted_mean", "hadamard", "concat_projection", "gated", "cross_attention", ""});
  table.Path("fusion.folder", &model->fusion.folder);
  table.Number("fusion.text_weight", &model->fusion.text_weight, 0, 1);
  table.TextList("fusion.placement", &model->fusion.placement);
  table.Path("self_check.file", &model->self_check.file);
  table.Number("self_check.min_cosine", &model->self_check.min_cosine, 0, 1);
  table.Flag("self_check.allow_mismatch", &model->self_check.allow_mismatch);
  return table.Take();
}

}  // namespace tributary
