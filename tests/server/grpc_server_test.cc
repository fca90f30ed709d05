// Health, reflection, addresses and the drain.
#include "server/grpc_server.h"

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "google/protobuf/dynamic_message.h"
#include "grpc_health.grpc.pb.h"
#include "server/lifecycle.h"
#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/test_server.h"

namespace tributary {
namespace {

namespace health = grpc::health::v1;

constexpr char kService[] = "tributary.v1.EmbeddingService";

grpc::Status CheckHealth(const TestServer& server, const std::string& service, health::HealthCheckResponse* response) {
  const auto stub = health::Health::NewStub(server.Connect());
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  health::HealthCheckRequest request;
  request.set_service(service);
  return stub->Check(&context, request, response);
}

// An open Watch of one service.
struct Watch {
  Watch(const TestServer& server, const std::string& service) : stub(health::Health::NewStub(server.Connect())) {
    context.set_deadline(TestDeadline());
    health::HealthCheckRequest request;
    request.set_service(service);
    reader = stub->Watch(&context, request);
  }
  health::HealthCheckResponse::ServingStatus Next() {
    health::HealthCheckResponse response;
    return reader->Read(&response) ? response.status() : health::HealthCheckResponse::UNKNOWN;
  }
  std::unique_ptr<health::Health::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<health::HealthCheckResponse>> reader;
};

TEST_CASE("health answers Check for the server and the service, and NOT_FOUND for others") {
  FakeEngine engine;
  TestServer server(&engine);
  health::HealthCheckResponse response;
  for (const char* service : {"", kService}) {
    server.server->SetServing(true);
    REQUIRE(CheckHealth(server, service, &response).ok());
    CHECK(response.status() == health::HealthCheckResponse::SERVING);
    server.server->SetServing(false);
    REQUIRE(CheckHealth(server, service, &response).ok());
    CHECK(response.status() == health::HealthCheckResponse::NOT_SERVING);
  }
  CHECK(CheckHealth(server, "nope", &response).error_code() == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("a health Watch sees every change") {
  FakeEngine engine;
  TestServer server(&engine);
  Watch watch(server, kService);
  CHECK(watch.Next() == health::HealthCheckResponse::SERVING);
  server.server->SetServing(false);
  CHECK(watch.Next() == health::HealthCheckResponse::NOT_SERVING);
  server.server->SetServing(true);
  CHECK(watch.Next() == health::HealthCheckResponse::SERVING);
  server.server->StopServing();
  CHECK(watch.Next() == health::HealthCheckResponse::NOT_SERVING);
  server.server->SetServing(true);  // after the stop: without effect
  health::HealthCheckResponse response;
  REQUIRE(CheckHealth(server, "", &response).ok());
  CHECK(response.status() == health::HealthCheckResponse::NOT_SERVING);
}

// One question to the reflection service. Its messages are linked in with the service, but without headers.
std::string AskReflection(const TestServer& server, const std::string& field, const std::string& value) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* type = pool->FindMessageTypeByName("grpc.reflection.v1alpha.ServerReflectionRequest");
  REQUIRE(type != nullptr);
  const std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  request->GetReflection()->SetString(request.get(), type->FindFieldByName(field), value);

  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  grpc::CompletionQueue queue;
  auto step = [&] {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    REQUIRE(ok);
  };
  grpc::GenericStub stub(server.Connect());
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  step();
  const grpc::Slice slice(request->SerializeAsString());
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  step();
  grpc::ByteBuffer bytes;
  call->Read(&bytes, nullptr);
  step();
  call->WritesDone(nullptr);
  step();
  grpc::Status status;
  call->Finish(&status, nullptr);
  step();
  CHECK(status.ok());
  grpc::Slice answer;
  REQUIRE(bytes.DumpToSingleSlice(&answer).ok());
  return std::string(reinterpret_cast<const char*>(answer.begin()), answer.size());
}

TEST_CASE("reflection lists the service and hands out its file") {
  FakeEngine engine;
  TestServer server(&engine);
  CHECK(AskReflection(server, "list_services", "").find(kService) != std::string::npos);
  const std::string file = AskReflection(server, "file_containing_symbol", kService);
  CHECK(file.find("EmbedTextRequest") != std::string::npos);
  CHECK(file.find("tributary/v1/embedding_service.proto") != std::string::npos);
}

TEST_CASE("an address that is taken, or is none, is an error and not a silently shared port") {
  FakeEngine engine;
  TestServer server(&engine);
  GrpcServerOptions options;
  options.listen = "127.0.0.1:" + std::to_string(server.server->port());
  CHECK(GrpcServer::Create(options, &server.service).status().code() == absl::StatusCode::kUnavailable);
  options.listen = "nonsense";
  CHECK(GrpcServer::Create(options, &server.service).status().message() == "server.listen: cannot listen on nonsense");
  options.listen = "127.0.0.1:0";
  options.tls.certificate = "/nowhere.pem";
  CHECK(GrpcServer::Create(options, &server.service).status().message() ==
        "server.tls.certificate: cannot read /nowhere.pem");
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("with TLS and a client authority, only clients that show a certificate it signed are served") {
  const std::string folder = TRIBUTARY_SOURCE_DIR "/tests/server/tls/";
  GrpcServerOptions options;
  options.tls = {
      .certificate = folder + "certificate.pem", .key = folder + "key.pem", .client_ca = folder + "certificate.pem"};
  FakeEngine engine;
  TestServer server(&engine, {}, options);
  grpc::SslCredentialsOptions with_certificate;
  with_certificate.pem_root_certs = ReadFile(folder + "certificate.pem");
  grpc::SslCredentialsOptions without_certificate = with_certificate;
  with_certificate.pem_cert_chain = with_certificate.pem_root_certs;
  with_certificate.pem_private_key = ReadFile(folder + "key.pem");

  auto call = [&](const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("tributary.test");
    const auto stub = v1::EmbeddingService::NewStub(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server.server->port()), credentials, arguments));
    return EmbedText(*stub, TextRequest({"a"})).status.error_code();
  };
  CHECK(call(grpc::SslCredentials(with_certificate)) == grpc::StatusCode::OK);
  CHECK(call(grpc::SslCredentials(without_certificate)) == grpc::StatusCode::UNAVAILABLE);
  CHECK(call(grpc::InsecureChannelCredentials()) == grpc::StatusCode::UNAVAILABLE);
}

TEST_CASE("the drain answers all calls in flight and is held by neither an open Watch nor an idle stream") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  constexpr size_t kCalls = 50;

  Watch watch(server, "");
  REQUIRE(watch.Next() == health::HealthCheckResponse::SERVING);
  const auto stub = server.Stub();
  grpc::ClientContext stream_context;
  const auto idle = stub->EmbedStream(&stream_context);
  REQUIRE(idle->Write(StreamText(1, "a")));
  engine.WaitUntilSubmitted(1);
  engine.ReleaseOne();
  v1::EmbedStreamResponse answer;
  REQUIRE(idle->Read(&answer));

  std::vector<Reply> replies(kCalls);
  std::vector<std::thread> clients;
  for (Reply& reply : replies) {
    clients.emplace_back([&] { reply = EmbedText(*stub, TextRequest({"a"})); });
  }
  engine.WaitUntilSubmitted(1 + kCalls);

  DrainResult left{99, 99};
  std::thread drain([&] { left = Drain(*server.server, engine, server.calls, std::chrono::seconds(60)); });
  CHECK(watch.Next() == health::HealthCheckResponse::NOT_SERVING);
  while (!engine.draining()) std::this_thread::yield();
  const Reply late = EmbedText(*stub, TextRequest({"late"}));
  CHECK(late.status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(server.calls.open() >= kCalls);  // nothing was cut

  engine.Release();
  for (std::thread& client : clients) client.join();
  drain.join();
  CHECK(left.unanswered == 0);
  CHECK(left.unsent == 0);
  for (const Reply& reply : replies) {
    CHECK(reply.status.ok());
    CHECK(reply.response.results_size() == 1);
  }
  CHECK_FALSE(idle->Read(&answer));
  CHECK(idle->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);  // retry elsewhere
}

TEST_CASE("once the drain has begun nothing more is counted, so that clients who come back cannot hold it") {
  CallTracker calls;
  REQUIRE(calls.TryAdd());
  calls.Close();
  CHECK_FALSE(calls.TryAdd());
  CHECK(calls.open() == 1);
  calls.Remove();
  CHECK(calls.WaitUntilNone(std::chrono::steady_clock::now()));
}

TEST_CASE("clients that call again and again do not hold the drain, and the accepted call is answered") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  Reply accepted;
  std::thread client([&] { accepted = EmbedText(*server.Stub(), TextRequest({"a"})); });
  engine.WaitUntilSubmitted(1);
  engine.StopAdmitting();
  std::atomic<size_t> refused{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      const auto stub = server.Stub();
      while (EmbedText(*stub, TextRequest({"b"})).status.error_message() == "draining") ++refused;
    });
  }
  DrainResult left{99, 99};
  std::thread drain([&] { left = Drain(*server.server, engine, server.calls, std::chrono::seconds(60)); });
  while (refused < 100) std::this_thread::yield();
  engine.Release();
  drain.join();
  client.join();
  for (std::thread& other : others) other.join();  // their connections are closed
  CHECK(left.unanswered == 0);
  CHECK(left.unsent == 0);
  CHECK(accepted.status.ok());
}

TEST_CASE("a drain that runs out of time says how many calls are left") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  const auto stub = server.Stub();
  Reply reply;
  std::thread client([&] { reply = EmbedText(*stub, TextRequest({"a"})); });
  engine.WaitUntilSubmitted(1);
  CHECK(Drain(*server.server, engine, server.calls, std::chrono::milliseconds(1)).unanswered == 1);
  engine.Release();
  client.join();
  CHECK(reply.status.ok());
}

}  // namespace
}  // namespace tributary
