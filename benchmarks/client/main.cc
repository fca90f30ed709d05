// tributary-bench: load for a Tributary server, and what came of it. Method and JSON schema: benchmarks/README.md.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/client/html_report.h"
#include "benchmarks/client/load_runner.h"
#include "benchmarks/client/rate_search.h"
#include "benchmarks/client/report.h"
#include "benchmarks/client/requests.h"
#include "benchmarks/client/server_metrics.h"
#include "benchmarks/client/server_sampler.h"
#include "benchmarks/client/transport.h"
#include "google/protobuf/util/json_util.h"
#include "tributary/v1/embedding_service.grpc.pb.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50051", "server, HOST:PORT");
ABSL_FLAG(std::string, metrics_url, "", "the server's metrics, HOST:PORT: read before, during and after the run");
ABSL_FLAG(std::string, model, "", "model; empty: the server's default");
ABSL_FLAG(std::string, mix, "text=1", "shares of calls: text=0.6,image=0.3,pair=0.1");
ABSL_FLAG(std::string, words, "lognormal:40,0.9", "words a text: fixed:N, lognormal:MEDIAN,SIGMA, mixed:N@SHARE,...");
ABSL_FLAG(std::string, corpus, "",
          "text file the words are taken from, in their order; empty: the one that comes with it");
ABSL_FLAG(std::string, images, "", "folder of JPEG, PNG and WebP files; empty: generated JPEGs");
ABSL_FLAG(std::vector<std::string>, image_sizes, std::vector<std::string>({"640x480"}), "sizes of generated images");
ABSL_FLAG(uint32_t, batch, 1, "inputs a call");
ABSL_FLAG(bool, stream, false, "one EmbedStream instead of a call each; one input a message");
ABSL_FLAG(double, rate, 0, "open loop: calls per second; 0: closed loop");
ABSL_FLAG(bool, constant, false, "open loop: calls at equal distances instead of as a Poisson process");
ABSL_FLAG(uint32_t, concurrency, 1, "closed loop: calls always open");
ABSL_FLAG(uint32_t, max_in_flight, 4096, "open loop: calls beyond this many open ones are not sent, but counted");
ABSL_FLAG(double, duration, 10, "measured seconds");
ABSL_FLAG(double, warmup, 2, "seconds of the same load before that, not measured");
ABSL_FLAG(double, slo, 100, "milliseconds within which an answer counts as goodput");
ABSL_FLAG(double, deadline, 10,
          "deadline of a call in seconds (0: none), and the longest wait for open calls at the end");
ABSL_FLAG(std::string, encoding, "float32", "of the vectors asked for: float32, float16, int8 or binary");
ABSL_FLAG(uint32_t, dimensions, 0, "numbers of a vector, one of the model's Matryoshka sizes; 0: all");
ABSL_FLAG(std::optional<std::string>, prompt, std::nullopt, "prompt name; not given: the model's default prompt");
ABSL_FLAG(bool, bulk, false, "priority bulk instead of interactive");
ABSL_FLAG(bool, search, false, "find the highest rate with 99 % of the calls within the SLO, starting at --rate");
ABSL_FLAG(std::vector<std::string>, fail_if, {}, "exit 1 when one of these holds: p99_ms>50,goodput_ratio<0.99");
ABSL_FLAG(uint64_t, seed, 1, "same seed, same texts, images and send times");
ABSL_FLAG(std::string, json, "", "file the results go to");
ABSL_FLAG(std::string, report, "", "HTML file that shows the results, with charts over time");
ABSL_FLAG(std::vector<std::string>, from, {},
          "make no load: --report shows these JSON files of runs made before, in one page");
ABSL_FLAG(std::string, commit, TRIBUTARY_COMMIT, "commit of the server measured, for the JSON");

namespace tributary::bench {
namespace {

constexpr int kExitFailed = 1;   // a --fail-if holds, or --search found no rate
constexpr int kExitUsage = 2;    // wrong flags, or no server
constexpr int kExitNotHeld = 3;  // the load asked for was not made: the figures do not stand for it
constexpr double kSearchGoodRatio = 0.99;

// Of an installed program: PREFIX/bin/tributary-bench -> PREFIX/share/tributary/corpus.txt; else the sources' one.
std::string CorpusPath() {
  if (const std::string given = absl::GetFlag(FLAGS_corpus); !given.empty()) return given;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed = program.parent_path().parent_path() / "share/tributary/corpus.txt";
  return std::filesystem::exists(installed, error) ? installed.string() : TRIBUTARY_BENCH_CORPUS;
}

// What the flags come to.
struct Setup {
  RunOptions run;
  std::optional<Requests> requests;
  std::vector<Condition> fail_if;
  std::shared_ptr<grpc::Channel> channel;
};

Nanos FromSeconds(double seconds) { return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds)); }

absl::StatusOr<RunOptions> RunOptionsFromFlags(const Mix& mix) {
  RunOptions run;
  run.mix = mix;
  run.rate = absl::GetFlag(FLAGS_rate);
  run.pattern = absl::GetFlag(FLAGS_constant) ? Arrivals::Pattern::kConstant : Arrivals::Pattern::kPoisson;
  run.concurrency = absl::GetFlag(FLAGS_concurrency);
  run.max_in_flight = absl::GetFlag(FLAGS_max_in_flight);
  run.warmup = FromSeconds(absl::GetFlag(FLAGS_warmup));
  run.duration = FromSeconds(absl::GetFlag(FLAGS_duration));
  run.slo = FromSeconds(absl::GetFlag(FLAGS_slo) / 1000);
  run.drain = FromSeconds(absl::GetFlag(FLAGS_deadline) + 1);
  run.seed = absl::GetFlag(FLAGS_seed);
  const auto positive = [](const char* name, double value) {
    return value > 0 ? absl::OkStatus()
                     : absl::InvalidArgumentError(absl::StrCat("--", name, " must be > 0, is ", value));
  };
  for (const absl::Status& status :
       {positive("duration", absl::GetFlag(FLAGS_duration)), positive("slo", absl::GetFlag(FLAGS_slo)),
        positive("batch", absl::GetFlag(FLAGS_batch)), positive("concurrency", absl::GetFlag(FLAGS_concurrency)),
        positive("max_in_flight", absl::GetFlag(FLAGS_max_in_flight))}) {
    if (!status.ok()) return status;
  }
  if (run.rate < 0 || run.warmup.count() < 0 || absl::GetFlag(FLAGS_deadline) < 0) {
    return absl::InvalidArgumentError("--rate, --warmup and --deadline must be >= 0");
  }
  if (absl::GetFlag(FLAGS_search) && run.rate == 0) {
    return absl::InvalidArgumentError("--search needs a --rate to start at");
  }
  return run;
}

// What every call asks of its vectors.
absl::StatusOr<v1::EmbedOptions> EmbedOptionsFromFlags() {
  v1::EmbedOptions options;
  options.set_model(absl::GetFlag(FLAGS_model));
  if (absl::GetFlag(FLAGS_bulk)) options.set_priority(v1::PRIORITY_BULK);
  v1::Encoding encoding = v1::ENCODING_FLOAT32;
  const std::string name = absl::GetFlag(FLAGS_encoding);
  if (!v1::Encoding_Parse(absl::StrCat("ENCODING_", absl::AsciiStrToUpper(name)), &encoding)) {
    return absl::InvalidArgumentError(absl::StrCat("--encoding must be float32, float16, int8 or binary, is ", name));
  }
  options.set_encoding(encoding);
  options.set_dimensions(absl::GetFlag(FLAGS_dimensions));
  if (const auto prompt = absl::GetFlag(FLAGS_prompt)) options.set_prompt_name(*prompt);
  return options;
}

absl::StatusOr<Setup> SetupFromFlags() {
  Setup setup;
  auto mix = Mix::Parse(absl::GetFlag(FLAGS_mix));
  if (!mix.ok()) return mix.status();
  auto words = WordCounts::Parse(absl::GetFlag(FLAGS_words));
  if (!words.ok()) return words.status();
  auto run = RunOptionsFromFlags(*mix);
  if (!run.ok()) return run.status();
  setup.run = *run;
  for (const std::string& text : absl::GetFlag(FLAGS_fail_if)) {
    auto condition = Condition::Parse(text, RunSummary().Values());
    if (!condition.ok()) return condition.status();
    setup.fail_if.push_back(*condition);
  }
  RequestOptions requests{.mix = *mix,
                          .words = *words,
                          .corpus = CorpusPath(),
                          .image_folder = absl::GetFlag(FLAGS_images),
                          .image_sizes = {},
                          .inputs_per_call = absl::GetFlag(FLAGS_batch),
                          .seed = absl::GetFlag(FLAGS_seed),
                          .options = {}};
  for (const std::string& text : absl::GetFlag(FLAGS_image_sizes)) {
    auto size = ParseSize(text);
    if (!size.ok()) return size.status();
    requests.image_sizes.push_back(*size);
  }
  auto options = EmbedOptionsFromFlags();
  if (!options.ok()) return options.status();
  requests.options = *std::move(options);
  auto made = Requests::Create(requests);
  if (!made.ok()) return made.status();
  setup.requests = *std::move(made);

  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  setup.channel = grpc::CreateCustomChannel(absl::GetFlag(FLAGS_target), grpc::InsecureChannelCredentials(), arguments);
  if (!setup.channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
    return absl::UnavailableError(absl::StrCat("no server at ", absl::GetFlag(FLAGS_target), " within 10 s"));
  }
  return setup;
}

RunSummary RunOnce(const Setup& setup, double rate) {
  RunOptions options = setup.run;
  options.rate = rate;
  const auto transport =
      absl::GetFlag(FLAGS_stream)
          ? MakeStreamTransport(setup.channel, *setup.requests)
          : MakeUnaryTransport(setup.channel, *setup.requests,
                               std::chrono::milliseconds(static_cast<int64_t>(absl::GetFlag(FLAGS_deadline) * 1000)));
  // On a terminal one live line, in a log nothing until the table.
  const bool live = isatty(STDERR_FILENO) != 0;
  LoadRunner runner(transport.get(), options);
  std::optional<ServerSampler> sampler;
  if (const std::string url = absl::GetFlag(FLAGS_metrics_url); !url.empty()) {
    sampler.emplace(url, ServerSampler::Clock::now() + options.warmup);
  }
  RunSummary summary = runner.Run([live](const Progress& progress) {
    if (live) std::cerr << "\r\x1b[K" << ProgressLine(progress) << std::flush;
  });
  if (live) std::cerr << "\r\x1b[K";
  if (sampler) summary.server = sampler->Stop();
  return summary;
}

// The summary of the best rate; empty: no rate passed.
std::optional<RunSummary> Search(const Setup& setup, std::vector<Probe>& probes) {
  std::optional<RunSummary> best;
  const auto passes = [&](double rate) {
    const RunSummary summary = RunOnce(setup, rate);
    Probe probe{.rate = rate,
                .passed = true,
                .why_not = summary.not_held,
                .values = summary.Values(),
                .load = summary.load,
                .server = summary.server};
    if (probe.why_not.empty() && !(probe.values.at("goodput_ratio") >= kSearchGoodRatio)) {
      probe.why_not = absl::StrCat("goodput_ratio ", probe.values.at("goodput_ratio"), " < ", kSearchGoodRatio);
    }
    probe.passed = probe.why_not.empty();
    std::cout << "rate " << rate << ": " << (probe.passed ? "held" : probe.why_not) << "; p99 "
              << probe.values.at("p99_ms") << " ms" << std::endl;
    if (probe.passed) best = summary;
    probes.push_back(probe);
    return probe.passed;
  };
  SearchRate({.start = setup.run.rate}, passes);
  return best;
}

nlohmann::json MetricsJson(const std::string& target) {
  if (target.empty()) return nullptr;
  auto metrics = ReadServerMetrics(target);
  if (metrics.ok()) return *metrics;
  std::cerr << metrics.status().message() << "\n";
  return {{"error", std::string(metrics.status().message())}};
}

// Of the server, what its metrics tell.
nlohmann::json VersionsJson(const nlohmann::json& metrics) {
  nlohmann::json versions = {{"client", TRIBUTARY_VERSION}, {"client_grpc", grpc::Version()}};
  if (!metrics.is_object()) return versions;
  for (const auto& [sample, value] : metrics.items()) {
    if (!absl::StartsWith(sample, "tributary_build_info{")) continue;
    versions["server"] = LabelValue(sample, "version");
    versions["server_libtorch"] = LabelValue(sample, "libtorch");
  }
  return versions;
}

// False, and said why, when it could not be written.
bool WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (file.flush()) return true;
  std::cerr << "tributary-bench: cannot write " << path << "\n";
  return false;
}

bool WriteReport(const std::vector<nlohmann::json>& documents) {
  const auto page = HtmlReport(documents);
  if (page.ok()) return WriteFile(absl::GetFlag(FLAGS_report), *page);
  std::cerr << "tributary-bench: " << page.status().message() << "\n";
  return false;
}

// --from: a report of runs made before.
int ReportFromFiles(const std::vector<std::string>& paths) {
  if (absl::GetFlag(FLAGS_report).empty()) {
    std::cerr << "tributary-bench: --from needs --report\n";
    return kExitUsage;
  }
  std::vector<nlohmann::json> documents;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    documents.push_back(nlohmann::json::parse(file, nullptr, false));
    if (!documents.back().is_object()) {
      std::cerr << "tributary-bench: no JSON object in " << path << "\n";
      return kExitUsage;
    }
  }
  return WriteReport(documents) ? 0 : kExitUsage;
}

nlohmann::json ModelsJson(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  v1::ListModelsResponse response;
  std::string text;
  if (!v1::EmbeddingService::NewStub(channel)->ListModels(&context, {}, &response).ok()) return nullptr;
  if (!google::protobuf::util::MessageToJsonString(response, &text).ok()) return nullptr;
  return nlohmann::json::parse(text).value("models", nlohmann::json::array());
}

nlohmann::json ConfigJson() {
  return {{"target", absl::GetFlag(FLAGS_target)},
          {"model", absl::GetFlag(FLAGS_model)},
          {"mix", absl::GetFlag(FLAGS_mix)},
          {"words", absl::GetFlag(FLAGS_words)},
          {"corpus", std::filesystem::path(CorpusPath()).filename().string()},
          {"images", absl::GetFlag(FLAGS_images)},
          {"image_sizes", absl::GetFlag(FLAGS_image_sizes)},
          {"batch", absl::GetFlag(FLAGS_batch)},
          {"stream", absl::GetFlag(FLAGS_stream)},
          {"rate", absl::GetFlag(FLAGS_rate)},
          {"constant", absl::GetFlag(FLAGS_constant)},
          {"concurrency", absl::GetFlag(FLAGS_concurrency)},
          {"max_in_flight", absl::GetFlag(FLAGS_max_in_flight)},
          {"duration", absl::GetFlag(FLAGS_duration)},
          {"warmup", absl::GetFlag(FLAGS_warmup)},
          {"slo_ms", absl::GetFlag(FLAGS_slo)},
          {"deadline", absl::GetFlag(FLAGS_deadline)},
          {"encoding", absl::GetFlag(FLAGS_encoding)},
          {"dimensions", absl::GetFlag(FLAGS_dimensions)},
          {"prompt", absl::GetFlag(FLAGS_prompt).value_or("(default)")},
          {"bulk", absl::GetFlag(FLAGS_bulk)},
          {"search", absl::GetFlag(FLAGS_search)},
          {"seed", absl::GetFlag(FLAGS_seed)}};
}

int Main() {
  if (const auto paths = absl::GetFlag(FLAGS_from); !paths.empty()) return ReportFromFiles(paths);
  const auto setup = SetupFromFlags();
  if (!setup.ok()) {
    std::cerr << "tributary-bench: " << setup.status().message() << "\n";
    return kExitUsage;
  }
  nlohmann::json report = {{"schema", 1},
                           {"tool", "tributary-bench"},
                           {"started", UtcNow()},
                           {"commit", absl::GetFlag(FLAGS_commit)},
                           {"machine", MachineInfo()},
                           {"config", ConfigJson()},
                           {"models", ModelsJson(setup->channel)}};
  const std::string metrics_url = absl::GetFlag(FLAGS_metrics_url);
  report["server_metrics"]["before"] = MetricsJson(metrics_url);
  report["versions"] = VersionsJson(report["server_metrics"]["before"]);
  std::optional<RunSummary> summary;
  std::vector<Probe> probes;
  if (absl::GetFlag(FLAGS_search)) {
    summary = Search(*setup, probes);
    report["search"] = {{"rate", summary ? summary->offered_rate : 0}, {"probes", ToJson(probes)}};
  } else {
    summary = RunOnce(*setup, setup->run.rate);
  }
  report["server_metrics"]["after"] = MetricsJson(metrics_url);
  report["result"] = summary ? ToJson(*summary) : nlohmann::json(nullptr);
  int code = 0;
  if (!summary) {
    std::cout << "No rate kept 99 % of the calls within " << absl::GetFlag(FLAGS_slo) << " ms.\n";
    code = kExitFailed;
  } else {
    std::cout << Table(*summary, absl::GetFlag(FLAGS_slo));
    if (absl::GetFlag(FLAGS_search))
      std::cout << "highest rate within the SLO: " << summary->offered_rate << " calls/s\n";
    const auto values = summary->Values();
    for (const Condition& condition : setup->fail_if) {
      if (!condition.Holds(values)) continue;
      const double value = values.at(condition.name);
      std::cout << "FAILED: " << condition.name
                << (std::isnan(value)
                        ? std::string(" was not measured: no call to take it from")
                        : absl::StrCat(" is ", value, ", ", condition.above ? "above " : "below ", condition.limit))
                << "\n";
      code = kExitFailed;
    }
    if (!summary->not_held.empty()) code = kExitNotHeld;
  }
  report["exit_code"] = code;
  if (const std::string path = absl::GetFlag(FLAGS_json); !path.empty()) {
    // A flag may hold bytes that are no UTF-8: that is no reason to lose a run.
    if (!WriteFile(path, report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"))
      return kExitUsage;
  }
  if (!absl::GetFlag(FLAGS_report).empty() && !WriteReport({report})) return kExitUsage;
  return code;
}

}  // namespace
}  // namespace tributary::bench

int main(int argc, char** argv) {
  // Flags may be written with dashes inside (--fail-if); Abseil's names have underscores.
  std::vector<std::string> arguments(argv, argv + argc);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    if (argument.rfind("--", 0) == 0) {
      const auto end = argument.begin() + static_cast<ptrdiff_t>(std::min(argument.find('='), argument.size()));
      std::replace(argument.begin() + 2, end, '-', '_');
    }
    pointers.push_back(argument.data());
  }
  absl::SetProgramUsageMessage("makes load for a Tributary server; see benchmarks/README.md");
  // --help lists the flags of this file; the library's own rule looks for a file named like the program.
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) { return absl::EndsWith(file, "benchmarks/client/main.cc"); };
  absl::SetFlagsUsageConfig(usage);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, pointers.data());
  if (rest.size() > 1) {
    std::cerr << "tributary-bench: unexpected argument '" << rest[1] << "'\n";
    return tributary::bench::kExitUsage;
  }
  return tributary::bench::Main();
}
