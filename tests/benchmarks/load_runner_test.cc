// The bench client against the real front end over a scripted engine.
#include "benchmarks/client/load_runner.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/client/requests.h"
#include "benchmarks/client/server_metrics.h"
#include "benchmarks/client/transport.h"
#include "server/engine_metrics.h"
#include "server/metrics_server.h"
#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_server.h"

namespace tributary::bench {
namespace {

using namespace std::chrono_literals;

void Quiet(const Progress& /*progress*/) {}

Requests MakeRequests(const std::string& mix, const std::string& words_of_corpus, size_t inputs = 1) {
  const TemporaryFolder folder;
  folder.Write("corpus.txt", words_of_corpus);
  auto requests = Requests::Create({.mix = *Mix::Parse(mix),
                                    .words = *WordCounts::Parse("fixed:1"),
                                    .corpus = folder.path() + "/corpus.txt",
                                    .image_folder = "",
                                    .image_sizes = {{32, 24}},
                                    .inputs_per_call = inputs,
                                    .requests_per_kind = 8,
                                    .seed = 1,
                                    .options = {}});
  INFO(requests.status().ToString());
  REQUIRE(requests.ok());
  return *std::move(requests);
}

RunOptions Options(const std::string& mix = "text=1") {
  RunOptions options;
  options.mix = *Mix::Parse(mix);
  options.duration = 500ms;
  options.slo = 10s;
  options.drain = 20s;
  return options;
}

TEST_CASE("A closed loop keeps its calls open, and every call is answered and counted") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=2,image=1,pair=1", "some words", 3);
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 20s);
  RunOptions options = Options("text=2,image=1,pair=1");
  options.concurrency = 4;

  engine.Hold();
  std::jthread release([&] {
    engine.WaitUntilSubmitted(4);
    engine.Release();
  });
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);

  const KindCounts total = summary.Total();
  CHECK(total.calls > 0);
  CHECK(total.calls == summary.scheduled_calls);
  CHECK(total.ok_inputs == 3 * total.calls);
  CHECK(total.errors.empty());
  CHECK(summary.max_in_flight == 4);
  CHECK(summary.given_up_calls == 0);
  CHECK(summary.not_held.empty());
  CHECK(summary.Values().at("goodput_ratio") == 1);
}

TEST_CASE("Latency counts from the intended send time: a server that stalls shows in every call it held up") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=1", "word");
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 20s);
  RunOptions options = Options();
  options.rate = 200;
  options.pattern = Arrivals::Pattern::kConstant;

  engine.Hold();
  std::jthread release([&] {
    engine.WaitUntilSubmitted(90);
    engine.Release();
  });
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);

  // Calls were meant to go out every 5 ms, whatever came back: the first waited for 89 others, the 46th for 44.
  CHECK(summary.scheduled_calls == 99);
  CHECK(summary.Total().calls == 99);
  CHECK(summary.Values().at("max_ms") >= 89 * 5);
  CHECK(summary.Values().at("p50_ms") >= 40 * 5);
}

// Answers at once, but its first Send takes long, as on a client machine that has other things to do.
class StallingTransport final : public Transport {
 public:
  void Send(Kind /*kind*/, size_t /*index*/, Done done) override {
    if (!std::exchange(stalled_, true)) std::this_thread::sleep_for(300ms);
    done({.ok_inputs = 1, .tokens = 1, .errors = {}});
  }
  void Close() override {}

 private:
  bool stalled_ = false;
};

TEST_CASE("Latency of calls that were sent late counts from when they were meant to be, and the run was not held") {
  StallingTransport transport;
  RunOptions options = Options();
  options.rate = 200;
  options.pattern = Arrivals::Pattern::kConstant;
  const RunSummary summary = LoadRunner(&transport, options).Run(Quiet);

  // The first call took 300 ms, so that about sixty others of the 99 waited, each 5 ms less than the one before.
  CHECK(summary.Total().calls == 99);
  CHECK(summary.Values().at("p50_ms") >= 50);
  CHECK(summary.Values().at("max_ms") >= 300);
  CHECK_THAT(summary.WhyNotHeld(), ContainsSubstring("calls were sent late"));
}

TEST_CASE("Calls beyond max_in_flight are not sent but counted, and the run says that it did not hold the rate") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=1", "word");
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 20s);
  RunOptions options = Options();
  options.rate = 200;
  options.pattern = Arrivals::Pattern::kConstant;
  options.max_in_flight = 8;
  options.drain = 0s;

  engine.Hold();
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);
  engine.Release();  // the server waits for what it accepted

  CHECK(summary.max_in_flight == 8);
  CHECK(summary.scheduled_calls == 99);
  CHECK(summary.missed_calls == 91);
  CHECK(summary.given_up_calls == 8);
  CHECK(summary.Total().errors == std::map<std::string, uint64_t>{{"CANCELLED", 8}});
  CHECK(summary.Values().at("goodput_ratio") == 0);
  CHECK(summary.not_held.find("max_in_flight 8") != std::string::npos);
}

TEST_CASE("Warm-up calls are sent but not measured") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=1", "word");
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 20s);
  RunOptions options = Options();
  options.rate = 100;
  options.pattern = Arrivals::Pattern::kConstant;
  options.warmup = 500ms;

  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);

  CHECK(summary.scheduled_calls == 50);
  CHECK(summary.Total().calls == 50);
  CHECK(server.observer.started() == 99);
}

TEST_CASE("Inputs that fail are errors by code, and their calls are no goodput") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=1", "broken");
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 20s);
  RunOptions options = Options();
  options.rate = 100;
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);

  const KindCounts total = summary.Total();
  CHECK(total.errors == std::map<std::string, uint64_t>{{"INVALID_ARGUMENT", total.calls}});
  CHECK(summary.Values().at("error_ratio") == 1);
  CHECK(total.good_calls == 0);
}

TEST_CASE("Calls that hit their deadline are errors, and their wait is in the latencies") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=1", "word");
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 100ms);
  RunOptions options = Options();
  options.concurrency = 2;

  engine.Hold();
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);
  engine.Release();

  const KindCounts total = summary.Total();
  CHECK(total.calls > 0);
  CHECK(total.errors == std::map<std::string, uint64_t>{{"DEADLINE_EXCEEDED", total.calls}});
  CHECK(summary.Values().at("p50_ms") >= 90);  // gRPC rounds deadlines to its own clock's milliseconds
  CHECK(total.good_calls == 0);
}

TEST_CASE("One stream carries many inputs at once, every one answered") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=2,image=1,pair=1", "some words");
  const auto transport = MakeStreamTransport(server.Connect(), requests);
  RunOptions options = Options("text=2,image=1,pair=1");
  options.concurrency = 16;

  engine.Hold();
  std::jthread release([&] {
    engine.WaitUntilSubmitted(16);
    engine.Release();
  });
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);

  CHECK(summary.max_in_flight == 16);
  CHECK(summary.Total().calls == summary.scheduled_calls);
  CHECK(summary.Total().ok_inputs == summary.scheduled_calls);
  CHECK(summary.Total().errors.empty());
}

TEST_CASE("Without a server a stream and unary calls fail as UNAVAILABLE, and the run ends early and says so") {
  const auto requests = MakeRequests("text=1", "word");
  const auto channel = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  RunOptions options = Options();
  options.duration = 60s;
  options.concurrency = 8;
  for (const bool stream : {false, true}) {
    const auto transport = stream ? MakeStreamTransport(channel, requests) : MakeUnaryTransport(channel, requests, 20s);
    const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);
    CHECK(summary.not_held == "1000 calls in a row failed with UNAVAILABLE");
    CHECK(summary.Total().ok_inputs == 0);
  }
}

TEST_CASE("Requests are the same for the same seed, and images are JPEGs") {
  const auto requests = MakeRequests("text=1,image=1", "one two three four five six seven");
  const auto again = MakeRequests("text=1,image=1", "one two three four five six seven");
  for (size_t i = 0; i < 8; ++i) {
    CHECK(requests.text(i).SerializeAsString() == again.text(i).SerializeAsString());
    CHECK(requests.image(i).SerializeAsString() == again.image(i).SerializeAsString());
    CHECK(requests.image(i).images(0).encoded().substr(0, 3) == "\xFF\xD8\xFF");
  }
}

TEST_CASE("Images come from the JPEG, PNG and WebP files of a folder; one without any is an error that names it") {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> files = {
      {"a.jpg", "first"}, {"b.jpeg", "second"}, {"c.png", "third"}, {"d.webp", "fourth"}};
  for (const auto& [name, bytes] : files) folder.Write(name, bytes);
  folder.Write("notes.txt", "no picture");
  RequestOptions options{.mix = *Mix::Parse("image=1"),
                         .words = *WordCounts::Parse("fixed:1"),
                         .corpus = "",
                         .image_folder = folder.path(),
                         .image_sizes = {{32, 24}},
                         .requests_per_kind = 64,
                         .options = {}};
  const auto requests = Requests::Create(options);
  REQUIRE(requests.ok());
  std::set<std::string> sent;
  for (size_t i = 0; i < 64; ++i) sent.insert(requests->image(i).images(0).encoded());
  CHECK(sent == std::set<std::string>{"first", "second", "third", "fourth"});

  const TemporaryFolder empty;
  options.image_folder = empty.path();
  const auto none = Requests::Create(options);
  CHECK(absl::IsNotFound(none.status()));
  CHECK_THAT(std::string(none.status().message()), ContainsSubstring(empty.path()));
}

TEST_CASE("The server's metrics are read from its port; without one the error names the address") {
  FakeEngine engine;
  const auto metrics = MetricsServer::Create("127.0.0.1:0", {std::make_shared<EngineMetrics>(&engine)});
  REQUIRE(metrics.ok());
  const auto samples = ReadServerMetrics("http://127.0.0.1:" + std::to_string((*metrics)->port()) + "/metrics");
  INFO(samples.status().ToString());
  REQUIRE(samples.ok());
  CHECK(samples->size() > 10);
  CHECK(absl::IsUnavailable(ReadServerMetrics("127.0.0.1:1").status()));
  CHECK(absl::IsInvalidArgument(ReadServerMetrics("nowhere").status()));
}

// Runs the program against `server`; its exit code.
int RunProgram(const TestServer& server, const std::string& flags) {
  const std::string command = std::string(TRIBUTARY_BENCH) +
                              " --target=127.0.0.1:" + std::to_string(server.server->port()) +
                              " --duration=0.3 --warmup=0 " + flags + " > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST_CASE("The program writes what it measured as JSON and ends with 0, 1 (--fail-if), 2 (flags) or 3 (not held)") {
  FakeEngine engine;
  TestServer server(&engine);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";

  CHECK(
      RunProgram(server,
                 "--concurrency=2 --slo=10000 --mix=text=1,image=1 --image-sizes=32x32 --batch=2 --commit=abc --json=" +
                     path) == 0);
  const auto json = ReadJson(path);
  CHECK(json["schema"] == 1);
  CHECK(json["commit"] == "abc");
  CHECK(json["machine"]["cores"].get<int>() >= 1);
  CHECK(json["config"]["concurrency"] == 2);
  CHECK(json["models"].size() >= 1);
  CHECK(json["result"]["held"] == true);
  CHECK(json["result"]["values"]["goodput_ratio"] == 1);
  CHECK(json["result"]["kinds"]["text"]["calls"].get<int>() > 0);
  CHECK(json["server_metrics"]["before"].is_null());
  CHECK(json["server_metrics"]["after"].is_null());

  CHECK(RunProgram(server, "--concurrency=2 --fail-if='p50_ms>0'") == 1);
  CHECK(RunProgram(server, "--fail-if='p98_ms>0'") == 2);
  CHECK(RunProgram(server, "--mix=audio=1") == 2);
  CHECK(RunProgram(server, "--search") == 2);
  engine.FailInputsWith(absl::ResourceExhaustedError("full"));
  CHECK(RunProgram(server, "--duration=0.02 --fail-if='p99_ms>50' --json=" + path) == 1);
  CHECK(ReadJson(path)["result"]["values"]["p99_ms"].is_null());
  engine.Hold();
  CHECK(RunProgram(server, "--rate=100 --max-in-flight=2 --deadline=0") == 3);
  engine.Release();  // the server waits for what it accepted
}

TEST_CASE("The program keeps the server's metrics from before and after the run") {
  FakeEngine engine;
  EngineSnapshot snapshot;
  snapshot.items_capacity = 4711;
  engine.SetSnapshot(snapshot);
  TestServer server(&engine);
  const auto metrics = MetricsServer::Create("127.0.0.1:0", {std::make_shared<EngineMetrics>(&engine)});
  REQUIRE(metrics.ok());
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  CHECK(RunProgram(server, "--metrics-url=127.0.0.1:" + std::to_string((*metrics)->port()) + " --json=" + path) == 0);
  for (const char* when : {"before", "after"}) {
    INFO(when);
    CHECK(ReadJson(path)["server_metrics"][when]["tributary_admission_items_capacity"] == 4711);
  }
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE(
    "The program writes an HTML report of a run, with the server's metrics in its course, and of runs made before") {
  FakeEngine engine;
  EngineSnapshot snapshot;
  snapshot.prepare_depth_items = 42;
  engine.SetSnapshot(snapshot);
  TestServer server(&engine);
  const auto metrics = MetricsServer::Create("127.0.0.1:0", {std::make_shared<EngineMetrics>(&engine)});
  REQUIRE(metrics.ok());
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  const std::string page = folder.path() + "/report.html";
  const std::string flags =
      "--rate=50 --slo=10000 --metrics-url=127.0.0.1:" + std::to_string((*metrics)->port()) + " --report=" + page;

  CHECK(RunProgram(server, flags + " --duration=1.3 --json=" + path) == 0);
  const auto result = ReadJson(path)["result"];
  CHECK(result["timeline"]["start_seconds"].size() == 1);  // 0.3 s are no bin of their own
  CHECK(result["server_timeline"]["failed_samples"] == 0);
  CHECK(result["server_timeline"]["columns"]["queue_depth_items/preparation"][0] == 42);
  CHECK_THAT(ReadText(page), ContainsSubstring("Queue depth"));
  CHECK_THAT(ReadText(page), ContainsSubstring("The load was held."));

  CHECK(RunProgram(server, "--report=" + page + " --from=" + path + "," + path) == 0);
  CHECK_THAT(ReadText(page), ContainsSubstring("All runs"));
  CHECK(RunProgram(server, "--from=" + path) == 2);
  CHECK(RunProgram(server, "--report=" + page + " --from=" + page) == 2);
  CHECK(RunProgram(server, "--report=/nowhere/report.html") == 2);
}

TEST_CASE("The timeline counts the calls of the window, each once") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto requests = MakeRequests("text=1", "word");
  const auto transport = MakeUnaryTransport(server.Connect(), requests, 20s);
  RunOptions options = Options();
  options.concurrency = 2;
  options.warmup = 200ms;
  const RunSummary summary = LoadRunner(transport.get(), options).Run(Quiet);
  REQUIRE(summary.load.start_seconds.size() == 1);
  const double calls = summary.load.columns.at("answered_calls")[0] * summary.elapsed_seconds;
  CHECK(calls == Approx(static_cast<double>(summary.Total().calls)));
  CHECK(summary.load.columns.at("scheduled_calls")[0] * summary.elapsed_seconds == Approx(calls));
}

TEST_CASE("The search of the program finds the highest rate it measured as held") {
  FakeEngine engine;
  TestServer server(&engine);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  // One call at a time bounds the search: beyond some hundred a second calls are not sent.
  CHECK(RunProgram(server, "--search --constant --rate=20 --max-in-flight=1 --slo=10000 --json=" + path) == 0);
  const auto json = ReadJson(path);
  double best = 0;
  bool failed_above = false;
  for (const auto& probe : json["search"]["probes"]) {
    if (probe["passed"]) best = std::max(best, probe["rate"].get<double>());
  }
  for (const auto& probe : json["search"]["probes"]) failed_above |= !probe["passed"] && probe["rate"] > best;
  CHECK(best > 0);
  CHECK(failed_above);
  CHECK(json["search"]["rate"] == best);
  CHECK(json["result"]["offered_rate"] == best);
  CHECK(json["result"]["held"] == true);
}

TEST_CASE("The search of the program reports each probe and the rate it found") {
  FakeEngine engine;
  TestServer server(&engine);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  engine.FailInputsWith(absl::ResourceExhaustedError("full"));
  CHECK(RunProgram(server, "--search --rate=20 --slo=1000 --json=" + path) == 1);
  const auto json = ReadJson(path);
  CHECK(json["search"]["rate"] == 0);
  CHECK(json["search"]["probes"].size() >= 2);
  CHECK(json["search"]["probes"][0]["passed"] == false);
  CHECK(json["result"].is_null());
}

}  // namespace
}  // namespace tributary::bench
