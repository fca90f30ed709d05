// The program as a process: its command line, its start, and its end by SIGTERM.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "grpc_health.grpc.pb.h"
#include "server/metric_table.h"
#include "tests/support/catch.h"
#include "tests/support/scrape.h"
#include "tests/support/temporary_folder.h"
#include "tributary/v1/admin_service.grpc.pb.h"
#include "tributary/v1/embedding_service.grpc.pb.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;
namespace health = grpc::health::v1;

constexpr char kConfig[] = "models:\n  - name: fake\n    text: {folder: unused}\n";

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The fake server as a child process, with its files in a folder of its own. `held`: it executes nothing until it
// drains. Killed at the latest by the destructor.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, const std::string& config = kConfig, bool held = false) {
    folder_.Write("config.yaml", config);
    arguments.insert(arguments.begin(), TRIBUTARY_FAKE_SERVER);
    for (std::string& argument : arguments) {
      const size_t at = argument.find("DIR/");
      if (at != std::string::npos) argument.replace(at, 3, folder_.path());
    }
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = folder_.File("out");
    const std::string err = folder_.File("err");
    pid_ = fork();
    if (pid_ == 0) {
      if (held) setenv("TRIBUTARY_FAKE_HELD_UNTIL_DRAIN", "1", 1);
      dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal) const { kill(pid_, signal); }
  // The exit code; -signal where one ended it.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string out() const { return ReadFile(folder_.File("out")); }
  std::string err() const { return ReadFile(folder_.File("err")); }

  // Waits until the server has written its ports.
  std::map<std::string, std::string> Ports() const {
    while (!fs::exists(folder_.File("ports"))) {
      // A server that could not start never writes them.
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) != 0) FAIL("the server has ended: " + err());
      std::this_thread::yield();
    }
    std::map<std::string, std::string> ports;
    std::ifstream file(folder_.File("ports"));
    for (std::string line; std::getline(file, line);) {
      ports[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
    return ports;
  }
  std::shared_ptr<grpc::Channel> Connect() const {
    return grpc::CreateChannel("127.0.0.1:" + Ports().at("grpc_port"), grpc::InsecureChannelCredentials());
  }

 private:
  const TemporaryFolder folder_;
  pid_t pid_ = -1;
};

const std::vector<std::string> kServe = {"--config=DIR/config.yaml", "--listen=127.0.0.1:0",
                                         "--metrics-listen=127.0.0.1:0", "--port-file=DIR/ports",
                                         "--set=lifecycle.drain_timeout_millis=60000"};

TEST_CASE("--version and --help answer and end with 0") {
  Process version({"--version"});
  CHECK(version.Wait() == 0);
  CHECK(version.out().find("tributary-server 0.0.0-test (LibTorch -, gRPC ") == 0);
  Process help({"--help"});
  CHECK(help.Wait() == 0);
  CHECK(help.out().find("--check-config") != std::string::npos);
}

TEST_CASE("--check-config ends with 0 and prints a good configuration, with 1 and the place of what is wrong") {
  Process good({"--check-config", "--config", "DIR/config.yaml", "--set", "lanes.count=3"});
  CHECK(good.Wait() == 0);
  CHECK(good.out().find("lanes.count: 3\n") != std::string::npos);
  CHECK(good.err().empty());
  Process bad({"--check_config", "--config", "DIR/config.yaml"}, "lanes:\n  cont: 3\n");
  CHECK(bad.Wait() == 1);
  CHECK(bad.err().find("config.yaml:2: lanes.cont: unknown key") != std::string::npos);
  Process missing({"--check-config", "--config=/nowhere.yaml"});
  CHECK(missing.Wait() == 1);
  CHECK(missing.err() == "tributary-server: cannot read /nowhere.yaml\n");
  Process unknown_flag({"--nope"});
  CHECK(unknown_flag.Wait() == 1);
}

TEST_CASE("a server that cannot listen ends with 1 and says where it wanted to") {
  Process process({"--config=DIR/config.yaml", "--listen=256.0.0.1:1", "--metrics-listen="});
  CHECK(process.Wait() == 1);
  CHECK(process.err().find("server.listen: cannot listen on 256.0.0.1:1") != std::string::npos);
}

TEST_CASE("SIGTERM with 50 calls in flight, an open Watch and an idle stream: 50 answers, exit 0 soon after the last") {
  Process process(kServe, kConfig, /*held=*/true);
  const auto channel = process.Connect();
  const auto stub = v1::EmbeddingService::NewStub(channel);

  const auto health_stub = health::Health::NewStub(channel);
  grpc::ClientContext watch_context;
  const auto watch = health_stub->Watch(&watch_context, {});
  health::HealthCheckResponse state;
  REQUIRE(watch->Read(&state));
  CHECK(state.status() == health::HealthCheckResponse::SERVING);

  grpc::ClientContext stream_context;
  const auto idle = stub->EmbedStream(&stream_context);

  constexpr size_t kCalls = 50;
  constexpr int kTexts = 10;
  std::vector<grpc::Status> statuses(kCalls);
  std::vector<v1::EmbedResponse> responses(kCalls);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kCalls; ++i) {
    clients.emplace_back([&, i] {
      v1::EmbedTextRequest request;
      for (int text = 0; text < kTexts; ++text) request.add_texts()->set_text("text");
      grpc::ClientContext context;
      statuses[i] = stub->EmbedText(&context, request, &responses[i]);
    });
  }
  // Waits until all have arrived. None can end yet.
  const int metrics_port = std::stoi(process.Ports().at("metrics_port"));
  auto metrics = Scrape(HttpGet(metrics_port, "/metrics"));
  while (metrics["tributary_rpc_started_total{method=\"EmbedText\"}"] < kCalls ||
         metrics["tributary_rpc_started_total{method=\"EmbedStream\"}"] < 1) {
    std::this_thread::yield();
    metrics = Scrape(HttpGet(metrics_port, "/metrics"));
  }
  CHECK(metrics["tributary_rpc_in_flight{method=\"EmbedText\"}"] == kCalls);
  process.Signal(SIGTERM);
  REQUIRE(watch->Read(&state));
  CHECK(state.status() == health::HealthCheckResponse::NOT_SERVING);
  for (std::thread& client : clients) client.join();
  const auto last_answer = std::chrono::steady_clock::now();
  CHECK(process.Wait() == 0);
  const auto exit_time = std::chrono::steady_clock::now() - last_answer;
  CHECK(exit_time < std::chrono::seconds(1));
  size_t answered = 0;
  for (size_t i = 0; i < kCalls; ++i) answered += statuses[i].ok() && responses[i].results_size() == kTexts ? 1 : 0;
  CHECK(answered == kCalls);
  CHECK(process.err().find("drained: goodbye") != std::string::npos);
}

TEST_CASE("a starting server prints its configuration once: what --check-config shows") {
  const std::string config = "models:\n  - name: fake\n    text: {folder: /unused}\n";
  std::vector<std::string> flags = kServe;
  flags.push_back("--set=lanes.count=3");
  Process process(flags, config);
  process.Ports();
  process.Signal(SIGTERM);
  CHECK(process.Wait() == 0);

  const std::string printed = process.out() + process.err();
  const size_t first = printed.find("lanes.count: 3\n");
  REQUIRE(first != std::string::npos);
  CHECK(printed.find("lanes.count:", first + 1) == std::string::npos);

  flags.push_back("--check-config");
  Process check(flags, config);
  CHECK(check.Wait() == 0);
  CHECK_THAT(check.out(), ContainsSubstring("lanes.count: 3\n"));
  CHECK_THAT(printed, ContainsSubstring(check.out()));
}

TEST_CASE("the admin port is there where it is asked for, apart from the embedding one, and ends with the server") {
  Process without(kServe);
  CHECK(without.Ports().count("admin_port") == 0);

  std::vector<std::string> flags = kServe;
  flags.push_back("--set=admin.listen=127.0.0.1:0");
  Process process(flags);
  const std::string port = process.Ports().at("admin_port");
  CHECK(port != process.Ports().at("grpc_port"));
  const auto load = [](const std::shared_ptr<grpc::Channel>& channel, const std::string& config) {
    grpc::ClientContext context;
    v1::LoadModelRequest request;
    request.set_config(config);
    v1::Model model;
    return v1::AdminService::NewStub(channel)->LoadModel(&context, request, &model);
  };
  const auto admin = grpc::CreateChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials());
  CHECK(load(admin, "name: m\n").error_message() ==
        "model.folder must be given where text.folder and image.folder are not, is empty");
  // The fake engine has no loader.
  CHECK(load(admin, "name: m\ntext.folder: /m\n").error_code() == grpc::StatusCode::UNIMPLEMENTED);
  CHECK(load(process.Connect(), "name: m\n").error_code() == grpc::StatusCode::UNIMPLEMENTED);
  process.Signal(SIGTERM);
  CHECK(process.Wait() == 0);
  CHECK_THAT(process.err(), ContainsSubstring("asked to load model 'm': UNIMPLEMENTED"));
}

TEST_CASE("an admin port that others can reach, or whose token is none, is an error at start") {
  Process open({"--config=DIR/config.yaml", "--set=admin.listen=0.0.0.0:0"});
  CHECK(open.Wait() == 1);
  CHECK_THAT(open.err(), ContainsSubstring("admin.listen is 0.0.0.0:0") && ContainsSubstring("admin.token_file"));
  std::vector<std::string> flags = kServe;
  flags.insert(flags.end(), {"--set=admin.listen=127.0.0.1:0", "--set=admin.token_file=/nowhere/token"});
  Process no_token(flags);
  CHECK(no_token.Wait() == 1);
  CHECK_THAT(no_token.err(), ContainsSubstring("admin.token_file: cannot read /nowhere/token"));
}

TEST_CASE("SIGINT ends the server too, and an idle server at once") {
  Process process(kServe);
  process.Ports();
  process.Signal(SIGINT);
  CHECK(process.Wait() == 0);
}

TEST_CASE("the metrics port shows every metric of the table, and what the engine did for a call") {
  Process process(kServe);
  v1::EmbedTextRequest request;
  request.add_texts()->set_text("text");
  grpc::ClientContext context;
  v1::EmbedResponse response;
  REQUIRE(v1::EmbeddingService::NewStub(process.Connect())->EmbedText(&context, request, &response).ok());
  const Scrape scrape(HttpGet(std::stoi(process.Ports().at("metrics_port")), "/metrics"));
  for (const MetricRow& row : MetricTable()) {
    CAPTURE(std::string(row.name));
    CHECK(scrape.names.count(std::string(row.name)) == 1);
  }
  CHECK(scrape["tributary_admission_calls_total{kind=\"text\"}"] == 1);
  CHECK(scrape["tributary_pipeline_items_total{modality=\"text\",code=\"OK\"}"] == 1);
  CHECK(scrape["tributary_lane_batches_total{modality=\"text\",code=\"OK\"}"] == 1);
  CHECK(scrape["tributary_lane_useful_units_total{modality=\"text\"}"] == 4);
}

TEST_CASE("health turns NOT_SERVING when a batch runs longer than health.max_batch_millis allows") {
  std::vector<std::string> flags = kServe;
  flags.insert(flags.end(), {"--set=health.max_batch_millis=1", "--set=health.check_interval_millis=10"});
  Process process(flags, kConfig, /*held=*/true);
  const auto channel = process.Connect();
  const auto health_stub = health::Health::NewStub(channel);
  grpc::ClientContext watch_context;
  watch_context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto watch = health_stub->Watch(&watch_context, {});
  health::HealthCheckResponse state;
  REQUIRE(watch->Read(&state));
  CHECK(state.status() == health::HealthCheckResponse::SERVING);

  grpc::Status status;
  std::thread client([&] {
    v1::EmbedTextRequest request;
    request.add_texts()->set_text("text");
    grpc::ClientContext context;
    v1::EmbedResponse response;
    status = v1::EmbeddingService::NewStub(channel)->EmbedText(&context, request, &response);
  });
  const bool told = watch->Read(&state);
  process.Signal(SIGTERM);  // lets the batch go
  client.join();
  CHECK(process.Wait() == 0);
  CHECK(status.ok());
  CHECK(told);
  CHECK(state.status() == health::HealthCheckResponse::NOT_SERVING);
  CHECK_THAT(process.err(), ContainsSubstring("has been executing one batch for"));
}

TEST_CASE("the limits of calls and streams are those of the configuration") {
  std::vector<std::string> flags = kServe;
  flags.insert(flags.end(), {"--set=admission.max_inputs_per_call=500", "--set=server.max_response_bytes=65536",
                             "--set=server.stream_window_inputs=2"});
  Process process(flags, kConfig, /*held=*/true);
  const auto stub = v1::EmbeddingService::NewStub(process.Connect());
  auto refusal = [&](int texts) {
    v1::EmbedTextRequest request;
    for (int i = 0; i < texts; ++i) request.add_texts()->set_text("text");
    grpc::ClientContext context;
    v1::EmbedResponse response;
    return stub->EmbedText(&context, request, &response).error_message();
  };
  CHECK_THAT(refusal(501), ContainsSubstring("the limit is 500 (admission.max_inputs_per_call)"));
  CHECK_THAT(refusal(500), ContainsSubstring("the limit is 65536 (server.max_response_bytes)"));

  grpc::ClientContext context;
  const auto stream = stub->EmbedStream(&context);
  v1::EmbedStreamRequest request;
  request.mutable_text()->set_text("text");
  for (int i = 0; i < 10; ++i) stream->Write(request);
  const int metrics_port = std::stoi(process.Ports().at("metrics_port"));
  auto in_flight = [&] { return Scrape(HttpGet(metrics_port, "/metrics"))["tributary_admission_requests_in_flight"]; };
  while (in_flight() < 2) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) REQUIRE(in_flight() == 2);  // the server goes on, but reads no further
}

}  // namespace
}  // namespace tributary
