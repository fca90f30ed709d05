// Models in and out of a running server, over real connections and a scripted engine.
#include "server/admin_service.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "server/admin_server.h"
#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_server.h"

namespace tributary {
namespace {

constexpr char kToken[] = "0123456789abcdef-token";
constexpr char kEntry[] = "name: new\ntext: {folder: models/new}\nmatryoshka_dimensions: [6]\n";

// An embedding server and, beside it, its admin port.
struct House {
  explicit House(bool token = false) : server(&engine) {
    config.admin.listen = "127.0.0.1:0";
    config.folder = "/etc/tributary";
    if (token) {
      folder.Write("token", std::string(kToken) + "\n");
      config.admin.token_file = folder.File("token");
    }
    auto created = AdminServer::Create(config, {.engine = &engine,
                                                .models = &server.models,
                                                .clock = &server.clock,
                                                .observer = &server.observer,
                                                .errors = &server.errors,
                                                .worker = nullptr,
                                                .token = {},
                                                .config_folder = {},
                                                .log = [this](const std::string& line) {
                                                  std::lock_guard lock(log_mutex);
                                                  log.push_back(line);
                                                }});
    if (!created.ok()) throw std::runtime_error(created.status().ToString());
    admin = *std::move(created);
    stub = v1::AdminService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(admin->port()), grpc::InsecureChannelCredentials()));
  }
  ~House() { engine.ReleaseOperations(); }

  std::string Log() {
    std::lock_guard lock(log_mutex);
    std::string all;
    for (const std::string& line : log) all += line + "\n";
    return all;
  }

  TemporaryFolder folder;
  ServerConfig config;
  FakeEngine engine;
  TestServer server;
  std::mutex log_mutex;
  std::vector<std::string> log;
  std::unique_ptr<AdminServer> admin;
  std::unique_ptr<v1::AdminService::Stub> stub;
};

struct Loaded {
  grpc::Status status;
  v1::Model model;
};

Loaded Load(House& house, const std::string& config, const std::optional<std::string>& authorization = std::nullopt,
            grpc::ClientContext* shared_context = nullptr) {
  grpc::ClientContext own;
  grpc::ClientContext& context = shared_context == nullptr ? own : *shared_context;
  if (shared_context == nullptr) context.set_deadline(TestDeadline());
  if (authorization) context.AddMetadata("authorization", *authorization);
  v1::LoadModelRequest request;
  request.set_config(config);
  Loaded loaded;
  loaded.status = house.stub->LoadModel(&context, request, &loaded.model);
  return loaded;
}

grpc::Status Unload(House& house, const std::string& name, std::optional<uint32_t> millis = std::nullopt) {
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  v1::UnloadModelRequest request;
  request.set_name(name);
  if (millis) request.set_timeout_millis(*millis);
  v1::UnloadModelResponse response;
  return house.stub->UnloadModel(&context, request, &response);
}

std::vector<std::string> Served(House& house) {
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  v1::ListModelsResponse models;
  REQUIRE(house.server.Stub()->ListModels(&context, {}, &models).ok());
  std::vector<std::string> names;
  for (const v1::Model& model : models.models()) names.push_back(model.name() + "/" + model.revision());
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("a loaded model is described, listed and served from the moment the call is answered") {
  House house;
  v1::EmbedTextRequest request = TextRequest({"a"});
  request.mutable_options()->set_model("new");
  const auto stub = house.server.Stub();
  CHECK(EmbedText(*stub, request).status.error_code() == grpc::StatusCode::NOT_FOUND);

  const Loaded loaded = Load(house, kEntry);
  REQUIRE(loaded.status.ok());
  CHECK(loaded.model.name() == "new");
  CHECK(loaded.model.dimensions() == 6);
  CHECK(Served(house) == Names{"fake/f0", "second/f0", "new/loaded"});
  CHECK(EmbedText(*stub, request).status.ok());
  CHECK(house.engine.last_model_options().text.folder == "/etc/tributary/models/new");
  CHECK(house.engine.operation_threads() == Names{"trib-admin"});
}

TEST_CASE("a model is replaced under its name, and the answer's limit is judged by the new one") {
  House house;
  REQUIRE(
      Load(house, "{name: fake, text: {folder: /a}, matryoshka_dimensions: [5000]}").status.ok());  // JSON's form too
  CHECK(Served(house) == Names{"fake/loaded", "second/f0"});
  const auto stub = house.server.Stub();
  const Reply reply = EmbedText(*stub, TextRequest(std::vector<std::string>(1000, "a")));
  CHECK(reply.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(reply.status.error_message().find("the answer to 1000 inputs takes up to 20") == 0);
}

TEST_CASE("an entry that is wrong is refused with line and key before anything is loaded") {
  House house;
  const auto error = [&](const std::string& config) {
    const grpc::Status status = Load(house, config).status;
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  CHECK(error("name: m\ntext:\n  folders: x\n") == "config:3: text.folders: unknown key");
  CHECK(error("name: m\ntext: {folder: x, dtype: int3}\n").find("config:2: text.dtype: expected one of") == 0);
  CHECK(error("") == "config:1: expected keys and values");
  CHECK(error("name: m") == "model.folder must be given where text.folder and image.folder are not, is empty");
  CHECK(error("models: [{name: m}]") == "config:1: models: unknown key");
  CHECK(error("name: ${HOME}\n") == "config:1: name: '${HOME}' has ${, the environment is not read here");
  CHECK(error(std::string(65537, ' ')) == "config has 65537 bytes, the limit is 65536");
  CHECK(error(std::string(5000, '[')).find("config:") == 0);
  CHECK(house.engine.operation_threads().empty());
  CHECK(house.Log().find("is refused: config:3: text.folders: unknown key") != std::string::npos);
}

TEST_CASE("a load that fails tells why, with the engine's code, and what served before serves on") {
  House house;
  house.engine.RefuseOperationsWith(absl::NotFoundError("model 'new': cannot open /x/config.json"));
  const Loaded loaded = Load(house, kEntry);
  CHECK(loaded.status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(loaded.status.error_message() == "model 'new': cannot open /x/config.json");
  CHECK(Served(house) == Names{"fake/f0", "second/f0"});
  house.engine.RefuseOperationsWith(absl::UnimplementedError("this engine loads no models while it runs"));
  CHECK(Load(house, kEntry).status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
}

TEST_CASE("an unloaded model is gone from the list; the default one stays, and one that is not there is named") {
  House house;
  REQUIRE(Unload(house, "second", 5).ok());
  CHECK(house.engine.last_unload_timeout() == std::chrono::milliseconds(5));
  CHECK(Served(house) == Names{"fake/f0"});
  CHECK(Unload(house, "second").error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(house.engine.last_unload_timeout() == std::chrono::minutes(1));
  CHECK(Unload(house, "fake").error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(Unload(house, "").error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status too_long = Unload(house, "fake", 3600001);
  CHECK(too_long.error_message() == "timeout_millis is 3600001, the limit is 3600000");
}

TEST_CASE("without the token nothing is done, whatever comes in its place") {
  House house(/*token=*/true);
  for (const std::optional<std::string>& wrong :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>(kToken),
        std::optional<std::string>("Bearer "), std::optional<std::string>("bearer " + std::string(kToken)),
        std::optional<std::string>("Bearer " + std::string(kToken) + "x"),
        std::optional<std::string>("Bearer 0123456789abcdef-tokem")}) {
    const Loaded loaded = Load(house, kEntry, wrong);
    CHECK(loaded.status.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(loaded.status.error_message().find(kToken) == std::string::npos);
  }
  CHECK(Unload(house, "second").error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(house.engine.operation_threads().empty());
  CHECK(house.server.Log().size() == 8);
  CHECK(Load(house, kEntry, "Bearer " + std::string(kToken)).status.ok());
}

TEST_CASE("tokens are the same only when all of them is the same") {
  CHECK(SameToken("abc", "abc"));
  for (const char* given : {"", "a", "ab", "abd", "abcd", "abcabc", "bbc"}) CHECK_FALSE(SameToken(given, "abc"));
}

TEST_CASE("a caller that goes away changes nothing: its load goes on") {
  House house;
  house.engine.HoldOperations();
  grpc::ClientContext context;
  grpc::Status cancelled;
  std::thread client([&] { cancelled = Load(house, kEntry, std::nullopt, &context).status; });
  house.engine.WaitUntilOperationsBegun(1);
  context.TryCancel();
  client.join();
  CHECK(cancelled.error_code() == grpc::StatusCode::CANCELLED);
  house.engine.ReleaseOperations();
  // Behind the cancelled one.
  REQUIRE(Unload(house, "second").ok());
  CHECK(Served(house) == Names{"fake/f0", "new/loaded"});
}

TEST_CASE("operations beyond the waiting ones are refused while one runs, and embedding goes on meanwhile") {
  House house;
  house.engine.HoldOperations();
  std::atomic<size_t> refused{0};
  std::vector<std::thread> clients;
  const auto start = [&] {
    clients.emplace_back([&] { refused += Unload(house, "x").error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED; });
  };
  start();
  house.engine.WaitUntilOperationsBegun(1);
  for (size_t i = 0; i < AdminWorker::kMaxWaiting + 3; ++i) start();
  while (refused < 3) std::this_thread::yield();
  const auto stub = house.server.Stub();
  CHECK(EmbedText(*stub, TextRequest({"a"})).status.ok());
  house.engine.ReleaseOperations();
  for (std::thread& client : clients) client.join();
  CHECK(refused == 3);
}

TEST_CASE("a drain answers what waits, waits for what runs as long as it may, and leaves it then") {
  House house;
  house.engine.HoldOperations();
  grpc::Status running;
  grpc::Status waiting;
  std::thread first([&] { running = Unload(house, "second"); });
  house.engine.WaitUntilOperationsBegun(1);
  std::thread second([&] { waiting = Load(house, kEntry).status; });
  while (house.Log().find("asks to load model 'new'") == std::string::npos) std::this_thread::yield();
  house.admin->StopServing();
  second.join();
  CHECK(waiting.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(Load(house, kEntry).status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK_FALSE(house.admin->Shutdown(house.server.clock.Now()));
  house.engine.ReleaseOperations();
  CHECK(house.admin->Shutdown(kNoDeadline));
  first.join();
  CHECK(running.ok());
}

TEST_CASE("the log says who asked for what and what came of it, on lines of its own") {
  House house;
  REQUIRE(Load(house, kEntry).status.ok());
  CHECK(Unload(house, "a\nforged line").error_code() == grpc::StatusCode::NOT_FOUND);
  const std::string log = house.Log();
  CHECK(log.find("asks to load model 'new'\n") != std::string::npos);
  CHECK(log.find("asked to load model 'new': done after") != std::string::npos);
  CHECK(log.find("unload model 'a?forged line': NOT_FOUND: no model 'a?forged line'") != std::string::npos);
  CHECK(log.find("127.0.0.1") != std::string::npos);
}

TEST_CASE("admin calls are counted by method and code") {
  House house;
  REQUIRE(Load(house, kEntry).status.ok());
  CHECK(Load(house, "").status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(Unload(house, "fake").error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  house.admin.reset();  // after it every call has been counted
  auto finished = house.server.observer.finished();
  std::sort(finished.begin(), finished.end());  // a call may be counted after the next one has begun
  CHECK(finished == std::vector<std::pair<RpcMethod, absl::StatusCode>>{
                        {RpcMethod::kLoadModel, absl::StatusCode::kOk},
                        {RpcMethod::kLoadModel, absl::StatusCode::kInvalidArgument},
                        {RpcMethod::kUnloadModel, absl::StatusCode::kFailedPrecondition}});
}

TEST_CASE("no admin port without its address; a token that is none is named by its file, never quoted") {
  House house;
  ServerConfig config;
  const auto none = AdminServer::Create(config, {});
  REQUIRE(none.ok());
  CHECK(*none == nullptr);
  const auto error = [&](const std::string& token) {
    house.folder.Write("bad", token);
    const absl::Status status = ReadTokenFile(house.folder.File("bad")).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    const std::string message(status.message());
    CHECK(message.find(house.folder.File("bad")) != std::string::npos);
    if (!token.empty()) CHECK(message.find(token) == std::string::npos);
    return message;
  };
  CHECK(error("").find("cannot read") != std::string::npos);
  CHECK(error("short-secret\n").find("has 12 bytes, must be 16..1024") != std::string::npos);
  CHECK(error("two words that are long enough").find("without spaces") != std::string::npos);
  CHECK(error(std::string(1025, 'x')).find("has 1025 bytes") != std::string::npos);
  house.folder.Write("good", "0123456789abcdef\r\n");
  CHECK(*ReadTokenFile(house.folder.File("good")) == "0123456789abcdef");
  CHECK_FALSE(ReadTokenFile("/nowhere/token").ok());
}

}  // namespace
}  // namespace tributary
