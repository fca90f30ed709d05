// The bench client against the real front end over a scripted engine.
#include "benchmarks/client/load_runner.h"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "benchmarks/client/requests.h"
#include "benchmarks/client/server_metrics.h"
#include "benchmarks/client/transport.h"
#include "server/engine_metrics.h"
#include "server/metrics_server.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
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

TEST_CASE("The program writes what it measured as JSON and ends with 0, 1 (--fail-if), 2 (flags) or 3 (not held)") {
  FakeEngine engine;
  TestServer server(&engine);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";

  CHECK(RunProgram(server,
                   "--rate=50 --slo=10000 --mix=text=1,image=1 --image-sizes=32x32 --batch=2 --commit=abc --json=" +
                       path) == 0);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  CHECK(json["schema"] == 1);
  CHECK(json["commit"] == "abc");
  CHECK(json["machine"]["cores"].get<int>() >= 1);
  CHECK(json["config"]["rate"] == 50);
  CHECK(json["models"].size() >= 1);
  CHECK(json["result"]["held"] == true);
  CHECK(json["result"]["values"]["goodput_ratio"] == 1);
  CHECK(json["result"]["kinds"]["text"]["calls"].get<int>() > 0);
  CHECK(json["server_metrics"]["before"].is_null());

  CHECK(RunProgram(server, "--concurrency=2 --fail-if='p50_ms>0'") == 1);
  CHECK(RunProgram(server, "--fail-if='p98_ms>0'") == 2);
  CHECK(RunProgram(server, "--mix=audio=1") == 2);
  CHECK(RunProgram(server, "--search") == 2);
  engine.Hold();
  CHECK(RunProgram(server, "--rate=100 --max-in-flight=2 --deadline=0") == 3);
  engine.Release();  // the server waits for what it accepted
}

TEST_CASE("The search of the program reports each probe and the rate it found") {
  FakeEngine engine;
  TestServer server(&engine);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  engine.FailInputsWith(absl::ResourceExhaustedError("full"));
  CHECK(RunProgram(server, "--search --rate=20 --slo=1000 --json=" + path) == 1);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  CHECK(json["search"]["rate"] == 0);
  CHECK(json["search"]["probes"].size() >= 2);
  CHECK(json["search"]["probes"][0]["passed"] == false);
  CHECK(json["result"].is_null());
}

}  // namespace
}  // namespace tributary::bench
