// tributary-offline: the engine without a server, as one contender of benchmarks/peers. A process that loads a model
// once and then does what its standard input says, one JSON object a line, one answer a line, so that the harness can
// take turns between contenders. The same protocol as benchmarks/peers/workers/worker.py.
//
//   tributary-offline --config FILE [--set KEY=VALUE]...
//   {"op":"load","workload":"mixed","file":"mixed.json"}          reads the inputs: {"kind":"text","texts":[...]},
//                                                                 {"kind":"jpeg","paths":[...]} or
//                                                                 {"kind":"rgb","width":W,"height":H,"paths":[...]}
//   {"op":"embed","workload":"mixed","out":"vectors.f32"}         the vectors, f32 [n, D], to a file
//   {"op":"throughput","workload":"mixed","seconds":2}            whole passes over the workload
//   {"op":"latency","workload":"mixed","seconds":2,"items":100}   one input at a time
//   {"op":"tokenise" | "prepare", ...}                            texts to ids, pictures to pixels: one thread
//   {"op":"ids" | "pixels","workload":"mixed","out":FILE}         what those give
// An answer has "ok"; where it is false, "error".
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/api/engine.h"
#include "engine/api/observer.h"
#include "engine/base/clock.h"
#include "engine/libtorch/engine_factory.h"
#include "engine/prepare/image/image_preparer.h"
#include "engine/prepare/text/text_preparer.h"
#include "nlohmann/json.hpp"
#include "server/server_config.h"

namespace tributary {
namespace {

using nlohmann::json;

constexpr size_t kInputsPerCall = 64;  // many calls in flight at once, as many clients would have

double Seconds() { return ToSeconds(std::chrono::steady_clock::now().time_since_epoch()); }

// CPU time of the whole process so far.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Workload {
  RequestKind kind = RequestKind::kText;
  std::vector<std::string> bytes;  // what the inputs' views point to
  std::vector<EmbedInput> inputs;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(absl::StrCat("cannot read ", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

Workload ReadWorkload(const std::string& path) {
  const json file = json::parse(ReadFile(path));
  Workload workload;
  const std::string kind = file.at("kind");
  if (kind == "text") {
    workload.bytes = file.at("texts").get<std::vector<std::string>>();
  } else {
    workload.kind = RequestKind::kImage;
    for (const std::string image : file.at("paths")) workload.bytes.push_back(ReadFile(image));
  }
  for (const std::string& bytes : workload.bytes) {
    EmbedInput input;
    if (kind == "text") {
      input.text = TextInput{.text = bytes, .token_ids = {}};
    } else if (kind == "jpeg") {
      input.image.emplace().encoded = bytes;
    } else if (kind == "rgb") {
      input.image.emplace().raw_rgb = ImageInput::RawRgb{bytes, file.at("width"), file.at("height")};
    } else {
      throw std::runtime_error(absl::StrCat(path, ": kind '", kind, "' is not text, jpeg or rgb"));
    }
    workload.inputs.push_back(input);
  }
  if (workload.inputs.empty()) throw std::runtime_error(absl::StrCat(path, " holds no inputs"));
  return workload;
}

// Runs `inputs` as one request and waits for it. Throws on any error: a figure with failed inputs would be none.
std::future<EmbedResponse> Submit(Engine& engine, RequestKind kind, std::vector<EmbedInput> inputs) {
  EmbedRequest request;
  request.kind = kind;
  request.inputs = std::move(inputs);
  auto promise = std::make_shared<std::promise<EmbedResponse>>();
  std::future<EmbedResponse> future = promise->get_future();
  const absl::Status submitted =
      engine.Submit(std::move(request), [promise](EmbedResponse response) { promise->set_value(std::move(response)); });
  if (!submitted.ok()) throw std::runtime_error(submitted.ToString());
  return future;
}

std::vector<std::vector<float>> Vectors(std::future<EmbedResponse> future) {
  std::vector<std::vector<float>> vectors;
  for (EmbedResult& result : future.get().results) {
    if (!result.status.ok()) throw std::runtime_error(result.status.ToString());
    vectors.push_back(std::move(result.text.empty() ? result.image : result.text));
  }
  return vectors;
}

std::vector<std::vector<float>> Pass(Engine& engine, const Workload& workload) {
  std::vector<std::future<EmbedResponse>> calls;
  for (size_t first = 0; first < workload.inputs.size(); first += kInputsPerCall) {
    const size_t last = std::min(first + kInputsPerCall, workload.inputs.size());
    const auto begin = workload.inputs.begin();
    calls.push_back(Submit(engine, workload.kind,
                           {begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last)}));
  }
  std::vector<std::vector<float>> vectors;
  for (std::future<EmbedResponse>& call : calls) {
    for (std::vector<float>& vector : Vectors(std::move(call))) vectors.push_back(std::move(vector));
  }
  return vectors;
}

// Calls `pass` (which handles `items` inputs) until `seconds` have gone by; at least once.
template <typename Function>
json TimePasses(size_t items, double seconds, const Function& pass) {
  const double cpu = CpuSeconds();
  const double start = Seconds();
  size_t done = 0;
  do {
    pass();
    done += items;
  } while (Seconds() - start < seconds);
  const double elapsed = Seconds() - start;
  return {{"ok", true}, {"items", done}, {"seconds", elapsed}, {"cpu_seconds", CpuSeconds() - cpu}};
}

void WriteBytes(const std::string& path, const void* data, size_t bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file.flush()) throw std::runtime_error(absl::StrCat("cannot write ", path));
}

class Worker {
 public:
  Worker(std::unique_ptr<Engine> engine, const EngineOptions& options) : engine_(std::move(engine)) {
    const TextModelOptions& text = options.models.front().text;
    if (!text.folder.empty()) {
      auto preparer = LoadTextPreparer(text.folder, text.max_tokens);
      if (!preparer.ok()) throw std::runtime_error(preparer.status().ToString());
      text_ = *std::move(preparer);
    }
    image_ = MakeImagePreparer({}, options.limits);
  }

  json Run(const json& command) {
    const std::string op = command.at("op");
    if (op == "info") return Info();
    Workload& workload = workloads_[command.at("workload")];
    if (op == "load") {
      workload = ReadWorkload(command.at("file"));
      return {{"ok", true}, {"items", workload.inputs.size()}};
    }
    if (workload.inputs.empty()) throw std::runtime_error("this workload was not loaded");
    if (op == "embed") return Embed(workload, command.at("out"));
    if (op == "throughput") {
      return TimePasses(workload.inputs.size(), command.at("seconds"), [&] { Pass(*engine_, workload); });
    }
    if (op == "latency") return Latency(workload, command.at("seconds"), command.at("items"));
    if (op == "tokenise") {
      return TimePasses(workload.inputs.size(), command.at("seconds"), [&] {
        for (const EmbedInput& input : workload.inputs) Ids(input);
      });
    }
    if (op == "prepare") {
      return TimePasses(workload.inputs.size(), command.at("seconds"), [&] {
        for (const EmbedInput& input : workload.inputs) Pixels(input);
      });
    }
    if (op == "ids") {
      json ids = json::array();
      for (const EmbedInput& input : workload.inputs) ids.push_back(Ids(input).ids);
      const std::string text = ids.dump();
      WriteBytes(command.at("out"), text.data(), text.size());
      return {{"ok", true}, {"rows", workload.inputs.size()}};
    }
    if (op == "pixels") {
      for (const EmbedInput& input : workload.inputs) {
        const PixelBlock block = Pixels(input);
        WriteBytes(command.at("out"), block.rgb.data(), block.rgb.size());
      }
      return {{"ok", true}, {"rows", workload.inputs.size()}};
    }
    throw std::runtime_error(absl::StrCat("unknown op '", op, "'"));
  }

 private:
  json Info() const {
    const ModelInfo model = engine_->Models().front();
    return {{"ok", true},
            {"name", "tributary"},
            {"version", absl::StrCat("LibTorch ", LibtorchVersion())},
            {"compute_type", model.compute_type},
            {"image_compute_type", model.image_compute_type},
            {"max_tokens", model.max_tokens},
            {"cpu_seconds", CpuSeconds()}};
  }

  json Embed(const Workload& workload, const std::string& out) {
    const std::vector<std::vector<float>> vectors = Pass(*engine_, workload);
    for (const std::vector<float>& vector : vectors) WriteBytes(out, vector.data(), vector.size() * sizeof(float));
    return {{"ok", true}, {"rows", vectors.size()}, {"dimension", vectors.front().size()}};
  }

  json Latency(const Workload& workload, double seconds, size_t items) {
    json micros = json::array();
    const double start = Seconds();
    while (micros.size() < items && (micros.empty() || Seconds() - start < seconds)) {
      const EmbedInput& input = workload.inputs[micros.size() % workload.inputs.size()];
      const double sent = Seconds();
      Vectors(Submit(*engine_, workload.kind, {input}));
      micros.push_back((Seconds() - sent) * 1e6);
    }
    return {{"ok", true}, {"micros", std::move(micros)}};
  }

  TokenSequence Ids(const EmbedInput& input) const {
    if (!input.text) throw std::runtime_error("this workload holds no texts");
    if (!text_) throw std::runtime_error("this model has no tokeniser");
    auto ids = text_->Prepare(*input.text, Truncation::kEnd);
    if (!ids.ok()) throw std::runtime_error(ids.status().ToString());
    return *std::move(ids);
  }

  PixelBlock Pixels(const EmbedInput& input) const {
    if (!input.image) throw std::runtime_error("this workload holds no pictures");
    auto pixels = image_->Prepare(*input.image);
    if (!pixels.ok()) throw std::runtime_error(pixels.status().ToString());
    return *std::move(pixels);
  }

  std::map<std::string, Workload> workloads_;  // before the engine, which is done with their bytes when it is gone
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TextPreparer> text_;
  std::unique_ptr<ImagePreparer> image_;
};

void Print(const json& answer) { std::cout << answer.dump() << std::endl; }

int Serve(const std::vector<std::string>& arguments) {
  std::string config_path;
  std::vector<std::string> overrides;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--config") config_path = arguments[i + 1];
    if (arguments[i] == "--set") overrides.push_back(arguments[i + 1]);
  }
  const auto config = LoadConfig(config_path, overrides, ProcessEnvironment());
  if (!config.ok()) throw std::runtime_error(std::string(config.status().message()));
  SteadyClock clock;
  Observer observer;
  const double start = Seconds();
  auto engine = CreateLibtorchEngine(config->engine, &clock, &observer);
  if (!engine.ok()) throw std::runtime_error(engine.status().ToString());
  Worker worker(*std::move(engine), config->engine);
  Print({{"ok", true}, {"ready", true}, {"load_seconds", Seconds() - start}});
  for (std::string line; std::getline(std::cin, line);) {
    try {
      Print(worker.Run(json::parse(line)));
    } catch (const std::exception& error) {
      Print({{"ok", false}, {"error", error.what()}});
    }
  }
  return 0;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  try {
    return tributary::Serve({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    tributary::Print({{"ok", false}, {"error", error.what()}});
    return 1;
  }
}
