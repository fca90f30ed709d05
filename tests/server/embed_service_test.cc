// The unary calls, over a real connection and a scripted engine.
#include "server/embed_service.h"

#include <grpcpp/generic/generic_stub.h>

#include <cstring>
#include <set>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/scrape.h"
#include "tests/support/test_server.h"

namespace tributary {
namespace {

// Sends any bytes as a unary call.
grpc::Status SendRaw(const TestServer& server, const std::string& method, const std::string& bytes) {
  const auto channel = server.Connect();
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  grpc::CompletionQueue queue;
  grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::GenericStub stub(channel);
  auto call = stub.PrepareUnaryCall(&context, "/tributary.v1.EmbeddingService/" + method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST_CASE("texts are answered in their order, with tokens, times, model and revision") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto stub = server.Stub();
  const Reply reply = EmbedText(*stub, TextRequest({"a", "", "twenty bytes of text"}));
  REQUIRE(reply.status.ok());
  REQUIRE(reply.response.results_size() == 3);
  CHECK(reply.response.results(0).embeddings().text().float32(0) == 1);
  CHECK(reply.response.results(1).embeddings().text().float32(0) == 0);
  CHECK(reply.response.results(2).embeddings().text().float32_size() == 4);
  CHECK(reply.response.results(0).token_count() == 3);
  CHECK_FALSE(reply.response.results(0).truncated());
  CHECK(reply.response.results(2).truncated());
  CHECK(reply.response.results(0).times().compute_micros() == 7);
  CHECK(reply.response.model() == "fake");
  CHECK(reply.response.model_revision() == "f0");
}

TEST_CASE("images and pairs are answered with the vectors of the parts they had") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto stub = server.Stub();
  v1::EmbedImageRequest images;
  images.add_images()->set_encoded("jpeg bytes");
  grpc::ClientContext image_context;
  v1::EmbedResponse response;
  REQUIRE(stub->EmbedImage(&image_context, images, &response).ok());
  CHECK(response.results(0).embeddings().image().float32(0) == 10);
  CHECK_FALSE(response.results(0).embeddings().has_text());

  v1::EmbedPairRequest pairs;
  pairs.add_pairs()->mutable_text()->set_text("ab");
  pairs.mutable_pairs(0)->mutable_image()->set_encoded("abc");
  pairs.add_pairs()->mutable_text()->set_text("abcd");
  grpc::ClientContext pair_context;
  REQUIRE(stub->EmbedPair(&pair_context, pairs, &response).ok());
  REQUIRE(response.results_size() == 2);
  CHECK(response.results(0).embeddings().text().float32(0) == 2);
  CHECK(response.results(0).embeddings().image().float32(0) == 3);
  CHECK(response.results(0).embeddings().has_fused());
  CHECK_FALSE(response.results(1).embeddings().has_image());
  CHECK(response.results(1).embeddings().has_fused());
}

TEST_CASE("one bad input never fails its neighbours, whether the server or the engine finds it") {
  FakeEngine engine;
  TestServer server(&engine);
  v1::EmbedTextRequest request = TextRequest({"good", "broken", "fine"});
  request.add_texts();  // neither text nor token ids
  const Reply reply = EmbedText(*server.Stub(), request);
  REQUIRE(reply.status.ok());
  REQUIRE(reply.response.results_size() == 4);
  CHECK(reply.response.results(0).has_embeddings());
  CHECK(reply.response.results(1).error().code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(reply.response.results(1).error().message() == "the input is broken");
  CHECK(reply.response.results(2).has_embeddings());
  CHECK(reply.response.results(3).error().message() == "the text input has neither text nor token_ids");
}

TEST_CASE("a call whose every input is malformed is let in or refused like any other") {
  FakeEngine engine;
  TestServer server(&engine);
  v1::EmbedTextRequest request;
  request.add_texts();
  const Reply reply = EmbedText(*server.Stub(), request);
  REQUIRE(reply.status.ok());
  CHECK(reply.response.results(0).error().code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(reply.response.results(0).error().message() == "the text input has neither text nor token_ids");
  CHECK(reply.response.model() == "fake");
  engine.RefuseWith(absl::UnimplementedError("no texts"));
  CHECK(EmbedText(*server.Stub(), request).status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
  engine.StopAdmitting();
  CHECK(EmbedText(*server.Stub(), request).status.error_code() == grpc::StatusCode::UNAVAILABLE);
}

TEST_CASE("raw garbage, a cut message and invalid UTF-8 get INVALID_ARGUMENT with a reason in every method") {
  FakeEngine engine;
  TestServer server(&engine);
  const std::string garbage = "\xFF\xFE\xFD garbage \x01\x02";
  for (const char* method : {"EmbedText", "EmbedImage", "EmbedPair", "ListModels", "GetModel"}) {
    const grpc::Status status = SendRaw(server, method, garbage);
    INFO(method);
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK(status.error_message().find("are no valid tributary.v1.") != std::string::npos);
  }
  std::string cut = TextRequest({"a longer text"}).SerializeAsString();
  cut.resize(cut.size() - 3);
  CHECK(SendRaw(server, "EmbedText", cut).error_code() == grpc::StatusCode::INVALID_ARGUMENT);

  std::string bad_text = TextRequest({"xxxx"}).SerializeAsString();
  bad_text.replace(bad_text.find("xxxx"), 4, "x\xC3\x28x");
  const grpc::Status status = SendRaw(server, "EmbedText", bad_text);
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status.error_message() == "the " + std::to_string(bad_text.size()) +
                                      " bytes of the message are no valid tributary.v1.EmbedTextRequest: malformed "
                                      "protobuf, or a string that is not UTF-8");
  CHECK(engine.submitted() == 0);
  CHECK(EmbedText(*server.Stub(), TextRequest({"a"})).status.ok());
}

TEST_CASE("a compressed message is refused, not inflated") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto stub = server.Stub();
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    context.set_compression_algorithm(algorithm);
    v1::EmbedResponse response;
    // Below the limit of 64 MiB; above it, the client's library would not send it.
    const grpc::Status status = stub->EmbedText(&context, TextRequest({std::string(32 << 20, 'x')}), &response);
    CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
    CHECK(status.error_message().find("is disabled") != std::string::npos);
  }
  CHECK(engine.submitted() == 0);
  CHECK(EmbedText(*stub, TextRequest({"a"})).status.ok());
}

TEST_CASE("too many inputs in one call are refused with both numbers") {
  FakeEngine engine;
  TestServer server(&engine);
  const Reply reply = EmbedText(*server.Stub(), TextRequest(std::vector<std::string>(6000, "a")));
  CHECK(reply.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(reply.status.error_message() == "the call has 6000 inputs, the limit is 1024 (admission.max_inputs_per_call)");
  CHECK(SendRaw(server, "EmbedText", TextRequest(std::vector<std::string>(20000, "a")).SerializeAsString())
            .error_message() ==
        "the tributary.v1.EmbedTextRequest has more than 16400 fields, enough for the limit of "
        "1024 inputs (admission.max_inputs_per_call)");
  CHECK(engine.submitted() == 0);
}

TEST_CASE("while answers in the making and unsent ones are at their limit, calls are refused; then they are let in") {
  FakeEngine engine(10000);  // 40 KB an answer
  engine.Hold();
  TestServer server(&engine, {}, {.max_unsent_answer_bytes = 100000});
  const auto stub = server.Stub();
  std::vector<std::thread> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.emplace_back([&] { CHECK(EmbedText(*stub, TextRequest({"a"})).status.ok()); });
    engine.WaitUntilSubmitted(i + 1);
  }
  CHECK(server.answers.reserved() > 120000);
  const Reply refused = EmbedText(*stub, TextRequest({"a"}));
  CHECK(refused.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(refused.status.error_message() == "answers of up to " + std::to_string(server.answers.reserved()) +
                                              " bytes are not sent yet, the limit is 100000 "
                                              "(server.max_unsent_answer_bytes)");
  engine.Release();
  for (std::thread& client : clients) client.join();
  REQUIRE(server.calls.WaitUntilNone(server.clock.Now() + std::chrono::seconds(60)));
  CHECK(EmbedText(*stub, TextRequest({"a"})).status.ok());
  server.server->Shutdown(std::chrono::seconds(60));
  CHECK(server.answers.reserved() == 0);
}

TEST_CASE("an answer that would not fit is refused with both numbers, and float16 halves it") {
  FakeEngine engine(1000);
  TestServer server(&engine, {.max_response_bytes = 65536});
  const auto stub = server.Stub();
  v1::EmbedTextRequest request = TextRequest(std::vector<std::string>(20, "a"));
  const Reply refused = EmbedText(*stub, request);
  CHECK(refused.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(refused.status.error_message().find("the answer to 20 inputs takes up to 81") == 0);
  CHECK(refused.status.error_message().find("the limit is 65536 (server.max_response_bytes)") != std::string::npos);
  request.mutable_options()->set_encoding(v1::ENCODING_FLOAT16);
  const Reply packed = EmbedText(*stub, request);
  REQUIRE(packed.status.ok());
  CHECK(packed.response.ByteSizeLong() <= 65536);
  CHECK(packed.response.results(0).embeddings().text().float32_size() == 0);
  // {1, 1, 2, ...} little endian.
  CHECK(packed.response.results(0).embeddings().text().float16().substr(0, 6) ==
        std::string("\x00\x3C\x00\x3C\x00\x40", 6));
}

TEST_CASE("a message over the server's limit is refused by gRPC with RESOURCE_EXHAUSTED, and the server lives on") {
  FakeEngine engine;
  TestServer server(&engine, {}, {.max_request_bytes = 4096});
  const auto stub = server.Stub();
  const Reply reply = EmbedText(*stub, TextRequest({std::string(5000, 'a')}));
  CHECK(reply.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(reply.status.error_message().find("4096") != std::string::npos);
  CHECK(EmbedText(*stub, TextRequest({"a"})).status.ok());
}

TEST_CASE("options and the client's deadline reach the engine") {
  FakeEngine engine;
  TestServer server(&engine);
  v1::EmbedTextRequest request = TextRequest({"a"});
  request.mutable_options()->set_model("second");
  request.mutable_options()->set_normalise(false);
  request.mutable_options()->set_truncation(v1::TRUNCATION_NONE);
  request.mutable_options()->set_priority(v1::PRIORITY_BULK);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(100));
  v1::EmbedResponse response;
  REQUIRE(server.Stub()->EmbedText(&context, request, &response).ok());
  const EmbedOptions options = engine.last_options();
  CHECK(options.model == "second");
  CHECK(options.normalise == false);
  CHECK(options.truncation == Truncation::kNone);
  CHECK(options.priority == Priority::kBulk);
  const double seconds = ToSeconds(options.deadline - server.clock.Now());
  CHECK(seconds > 30);  // the test may take long, but not this long
  CHECK(seconds <= 101);
  CHECK(response.model() == "second");

  grpc::ClientContext without_deadline;
  REQUIRE(server.Stub()->EmbedText(&without_deadline, TextRequest({"a"}), &response).ok());
  CHECK(engine.last_options().deadline == kNoDeadline);
}

// One HTTP/2 call by hand, because gRPC's own client cuts every time-out to 27,000 hours.
std::string Http2Call(const std::string& timeout, const std::string& message) {
  auto big_endian = [](size_t value, int bytes) {
    std::string out;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
    return out;
  };
  auto frame = [&](char type, char flags, size_t stream, const std::string& payload) {
    return big_endian(payload.size(), 3) + type + flags + big_endian(stream, 4) + payload;
  };
  std::string headers;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                        {":scheme", "http"},
                                                        {":path", "/tributary.v1.EmbeddingService/EmbedText"},
                                                        {":authority", "test"},
                                                        {"te", "trailers"},
                                                        {"content-type", "application/grpc"},
                                                        {"grpc-timeout", timeout}}) {
    headers += '\0';  // a literal, not indexed
    headers += static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
  }
  constexpr char kHeaders = 1, kData = 0, kSettings = 4, kEndStream = 1, kEndHeaders = 4;
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "") + frame(kHeaders, kEndHeaders, 1, headers) +
         frame(kData, kEndStream, 1, '\0' + big_endian(message.size(), 4) + message);
}

TEST_CASE("a time-out of centuries is none") {
  FakeEngine engine;
  TestServer server(&engine);
  const int connection = ConnectTo(server.server->port());
  const std::string call = Http2Call("99999999H", TextRequest({"a"}).SerializeAsString());
  REQUIRE(send(connection, call.data(), call.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(call.size()));
  engine.WaitUntilSubmitted(1);
  CHECK(engine.last_options().deadline == kNoDeadline);
  close(connection);
}

TEST_CASE("an unknown model is NOT_FOUND and names the served ones; a bad enum value is INVALID_ARGUMENT") {
  FakeEngine engine;
  TestServer server(&engine);
  v1::EmbedTextRequest request = TextRequest({"a"});
  request.mutable_options()->set_model("nope");
  Reply reply = EmbedText(*server.Stub(), request);
  CHECK(reply.status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(reply.status.error_message() == "models served are fake, second, not \"nope\"");
  request.mutable_options()->set_model("");
  request.mutable_options()->set_truncation(static_cast<v1::Truncation>(77));
  reply = EmbedText(*server.Stub(), request);
  CHECK(reply.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(reply.status.error_message() == "options.truncation is 77, known are 0 to 3");
  request = {};
  reply = EmbedText(*server.Stub(), request);
  CHECK(reply.status.error_message() == "texts is empty, at least 1 input is needed");
}

TEST_CASE("what the engine refuses, the client sees with the same code and message") {
  FakeEngine engine;
  TestServer server(&engine);
  engine.RefuseWith(absl::ResourceExhaustedError("8192 text items are in flight, the limit is 8192"));
  Reply reply = EmbedText(*server.Stub(), TextRequest({"a"}));
  CHECK(reply.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(reply.status.error_message() == "8192 text items are in flight, the limit is 8192");
  engine.RefuseWith(absl::UnimplementedError("no images"));
  reply = EmbedText(*server.Stub(), TextRequest({"a"}));
  CHECK(reply.status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
}

TEST_CASE("faults of the server's own are logged without the input; what clients do wrong is not") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto stub = server.Stub();
  EmbedText(*stub, TextRequest({"broken", "secret"}));
  CHECK(server.Log().empty());
  engine.FailInputsWith(absl::InternalError("device fault"));
  const Reply reply = EmbedText(*stub, TextRequest({"secret"}));
  CHECK(reply.response.results(0).error().code() == grpc::StatusCode::INTERNAL);
  CHECK(server.Log() == std::vector<std::string>{"EmbedText failed: device fault"});
}

TEST_CASE("a client's cancellation reaches the engine, and the call ends once the engine lets go of it") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  const auto stub = server.Stub();
  grpc::ClientContext context;
  grpc::Status status;
  std::thread client([&] {
    v1::EmbedResponse response;
    status = stub->EmbedText(&context, TextRequest({"a"}), &response);
  });
  engine.WaitUntilSubmitted(1);
  CHECK_FALSE(engine.last_cancel()->cancelled());
  context.TryCancel();
  client.join();
  CHECK(status.error_code() == grpc::StatusCode::CANCELLED);
  const auto cancel = engine.last_cancel();
  while (!cancel->cancelled()) std::this_thread::yield();  // the server hears of it a little later than the client
  CHECK(server.calls.open() == 1);
  engine.Release();
  CHECK(server.calls.WaitUntilNone(server.clock.Now() + std::chrono::seconds(60)));
}

TEST_CASE("models are listed with the default first, and found by name") {
  FakeEngine engine;
  TestServer server(&engine);
  const auto stub = server.Stub();
  grpc::ClientContext list_context;
  v1::ListModelsResponse models;
  REQUIRE(stub->ListModels(&list_context, {}, &models).ok());
  REQUIRE(models.models_size() == 2);
  const v1::Model& model = models.models(0);
  CHECK(model.name() == "fake");
  CHECK(model.revision() == "f0");
  CHECK(model.is_default());
  CHECK((model.serves_text() && model.serves_image() && model.serves_pair()));
  CHECK(model.dimensions() == 4);
  CHECK(model.max_tokens() == 16);
  CHECK(model.vocabulary_size() == 100);
  CHECK(model.image_width() == 8);
  CHECK(model.image_height() == 9);
  CHECK(model.normalised_by_default());
  CHECK(model.fusion() == "weighted_mean");
  CHECK(model.compute_type() == "fp32");
  CHECK(model.image_compute_type() == "bf16");
  CHECK(model.parameter_count() == 10);
  CHECK(model.parameter_bytes() == 40);

  v1::GetModelRequest request;
  v1::Model found;
  grpc::ClientContext default_context;
  REQUIRE(stub->GetModel(&default_context, request, &found).ok());
  CHECK(found.name() == "fake");
  request.set_name("second");
  grpc::ClientContext second_context;
  REQUIRE(stub->GetModel(&second_context, request, &found).ok());
  CHECK_FALSE(found.is_default());
  request.set_name("third");
  grpc::ClientContext third_context;
  CHECK(stub->GetModel(&third_context, request, &found).error_code() == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("every call is reported to the observer once, with the code the client got") {
  FakeEngine engine;
  {
    TestServer server(&engine);
    const auto stub = server.Stub();
    EmbedText(*stub, TextRequest({"a"}));
    EmbedText(*stub, {});
    grpc::ClientContext context;
    v1::ListModelsResponse models;
    stub->ListModels(&context, {}, &models);
    server.server->Shutdown(std::chrono::seconds(60));  // every call is over
    CHECK(server.observer.started() == 3);
    const auto finished = server.observer.finished();
    CHECK(std::multiset<std::pair<RpcMethod, absl::StatusCode>>(finished.begin(), finished.end()) ==
          std::multiset<std::pair<RpcMethod, absl::StatusCode>>{
              {RpcMethod::kEmbedText, absl::StatusCode::kOk},
              {RpcMethod::kEmbedText, absl::StatusCode::kInvalidArgument},
              {RpcMethod::kListModels, absl::StatusCode::kOk}});
  }
}

}  // namespace
}  // namespace tributary
