// EmbedStream over a real connection and a scripted engine.
#include <map>
#include <thread>

#include "server/lifecycle.h"
#include "server/stream_reactor.h"
#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/test_server.h"

namespace tributary {
namespace {

using Stream = grpc::ClientReaderWriter<v1::EmbedStreamRequest, v1::EmbedStreamResponse>;

// A stream and what must live as long.
struct Client {
  explicit Client(const TestServer& server) : stub(server.Stub()) {
    context.set_deadline(TestDeadline());
    stream = stub->EmbedStream(&context);
  }
  std::unique_ptr<v1::EmbeddingService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
};

TEST_CASE("a stream takes any kind of input, gives every id back, and ends with OK after the half-close") {
  FakeEngine engine;
  TestServer server(&engine);
  Client client(server);
  client.stream->Write(StreamText(11, "abc"));
  v1::EmbedStreamRequest image;
  image.set_id(12);
  image.mutable_image()->set_encoded("12345");
  client.stream->Write(image);
  v1::EmbedStreamRequest pair;
  pair.set_id(13);
  pair.mutable_pair()->mutable_text()->set_text("t");
  pair.mutable_options()->set_encoding(v1::ENCODING_FLOAT16);
  client.stream->Write(pair);
  client.stream->WritesDone();
  std::map<uint64_t, v1::EmbedStreamResponse> answers;
  for (v1::EmbedStreamResponse answer; client.stream->Read(&answer);) answers[answer.id()] = answer;
  CHECK(client.stream->Finish().ok());
  REQUIRE(answers.size() == 3);
  CHECK(answers[11].result().embeddings().text().float32(0) == 3);
  CHECK(answers[11].model() == "fake");
  CHECK(answers[11].model_revision() == "f0");
  CHECK(answers[12].result().embeddings().image().float32(0) == 5);
  CHECK(answers[13].result().embeddings().fused().float16().size() == 8);
}

TEST_CASE("what is wrong with one input of a stream is its answer's error, and the stream goes on") {
  FakeEngine engine;
  TestServer server(&engine);
  Client client(server);
  client.stream->Write(StreamText(1, "broken"));
  v1::EmbedStreamRequest unknown_model = StreamText(2, "a");
  unknown_model.mutable_options()->set_model("nope");
  client.stream->Write(unknown_model);
  v1::EmbedStreamRequest nothing;
  nothing.set_id(3);
  client.stream->Write(nothing);
  v1::EmbedStreamRequest empty_text;
  empty_text.set_id(4);
  empty_text.mutable_text();
  client.stream->Write(empty_text);
  std::map<uint64_t, int> codes;
  v1::EmbedStreamResponse answer;
  for (int i = 0; i < 4; ++i) {
    REQUIRE(client.stream->Read(&answer));
    codes[answer.id()] = answer.result().error().code();
  }
  CHECK(codes == std::map<uint64_t, int>{{1, grpc::StatusCode::INVALID_ARGUMENT},
                                         {2, grpc::StatusCode::NOT_FOUND},
                                         {3, grpc::StatusCode::INVALID_ARGUMENT},
                                         {4, grpc::StatusCode::INVALID_ARGUMENT}});
  engine.RefuseWith(absl::ResourceExhaustedError("full"));
  client.stream->Write(StreamText(5, "a"));
  REQUIRE(client.stream->Read(&answer));
  CHECK(answer.result().error().code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  engine.RefuseWith(absl::OkStatus());
  client.stream->Write(StreamText(6, "a"));
  REQUIRE(client.stream->Read(&answer));
  CHECK(answer.result().has_embeddings());
  client.stream->WritesDone();
  CHECK(client.stream->Finish().ok());
}

TEST_CASE("options and the client's deadline reach the engine with every input of a stream") {
  FakeEngine engine;
  TestServer server(&engine);
  Client client(server);
  v1::EmbedStreamRequest request = StreamText(1, "a");
  request.mutable_options()->set_model("second");
  request.mutable_options()->set_priority(v1::PRIORITY_BULK);
  client.stream->Write(request);
  engine.WaitUntilSubmitted(1);
  const EmbedOptions options = engine.last_options();
  CHECK(options.model == "second");
  CHECK(options.priority == Priority::kBulk);
  const double seconds = ToSeconds(options.deadline - server.clock.Now());
  CHECK(seconds > 10);  // of TestDeadline's 60: the test may take long, but not this long
  CHECK(seconds <= 61);
  client.stream->WritesDone();
  v1::EmbedStreamResponse answer;
  CHECK(client.stream->Read(&answer));
  CHECK(client.stream->Finish().ok());
}

TEST_CASE("answers are written as they finish, before the client has sent everything") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  Client client(server);
  client.stream->Write(StreamText(1, "a"));
  client.stream->Write(StreamText(2, "a"));
  engine.WaitUntilSubmitted(2);
  engine.ReleaseOne();
  v1::EmbedStreamResponse answer;
  REQUIRE(client.stream->Read(&answer));
  CHECK(answer.id() == 1);
  engine.ReleaseOne();
  REQUIRE(client.stream->Read(&answer));
  CHECK(answer.id() == 2);
  client.stream->WritesDone();
  CHECK(client.stream->Finish().ok());
}

TEST_CASE("after the half-close what is in flight is still answered") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  Client client(server);
  for (uint64_t id = 0; id < 100; ++id) client.stream->Write(StreamText(id, "a"));
  client.stream->WritesDone();
  engine.WaitUntilSubmitted(100);
  engine.Release();
  size_t answers = 0;
  for (v1::EmbedStreamResponse answer; client.stream->Read(&answer);) ++answers;
  CHECK(answers == 100);
  CHECK(client.stream->Finish().ok());
}

TEST_CASE("bytes that are no message end the stream with INVALID_ARGUMENT, after the inputs before them are answered") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  Client client(server);
  client.stream->Write(StreamText(1, "a"));
  // protobuf's client refuses to send text that is not UTF-8, so this is sent as a message with a field of another
  // type.
  v1::EmbedStreamRequest bad;
  bad.GetReflection()->MutableUnknownFields(&bad)->AddLengthDelimited(2, "\xFF\xFF\xFF");
  client.stream->Write(bad);
  engine.WaitUntilSubmitted(1);
  engine.Release();
  v1::EmbedStreamResponse answer;
  REQUIRE(client.stream->Read(&answer));
  CHECK(answer.id() == 1);
  CHECK_FALSE(client.stream->Read(&answer));
  const grpc::Status status = client.stream->Finish();
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status.error_message().find("are no valid tributary.v1.EmbedStreamRequest") != std::string::npos);
}

TEST_CASE("a cancelled stream cancels its inputs and is forgotten once the engine lets go of them") {
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine);
  {
    Client client(server);
    for (uint64_t id = 0; id < 10; ++id) client.stream->Write(StreamText(id, "a"));
    engine.WaitUntilSubmitted(10);
    client.context.TryCancel();
    CHECK(client.stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  const auto cancel = engine.last_cancel();
  while (!cancel->cancelled()) std::this_thread::yield();
  engine.Release();
  CHECK(server.calls.WaitUntilNone(server.clock.Now() + std::chrono::seconds(60)));
}

// A client that writes as fast as it can and never reads, over answers of 40 KB: a few fill HTTP/2's flow-control
// window, and the rest waits in the server.
struct DeafClient {
  static constexpr size_t kWindow = 16;
  explicit DeafClient(size_t window = kWindow, GrpcServerOptions options = {})
      : server(&engine, {.stream_window_inputs = window}, options) {}

  FakeEngine engine{10000};
  TestServer server;
  Client client{server};
  // Blocks when the server has stopped reading and the connection's own buffers are full; ends with the stream.
  std::thread writer{[this] {
    const std::string text(10000, 'x');
    for (uint64_t id = 0; client.stream->Write(StreamText(id, text)); ++id) {
    }
  }};

  // Waits until no more of the stream's inputs are taken, at least `least` are; each look is one whole call of another
  // client, which takes no part of any limit. Returns how many inputs the engine has taken.
  size_t WaitUntilStuck(size_t least) {
    const auto other = server.Stub();
    size_t taken = 0;
    for (size_t unchanged = 0; unchanged < 200;) {
      grpc::ClientContext context;
      v1::ListModelsResponse models;
      REQUIRE(other->ListModels(&context, {}, &models).ok());
      const size_t now = engine.submitted();
      unchanged = now == taken && now >= least ? unchanged + 1 : 0;
      taken = now;
    }
    return taken;
  }
};

TEST_CASE("a client that never reads is read no further than the window, holds no more, and delays nobody") {
  DeafClient deaf;
  // What the client's and the server's transport buffers took, and the window.
  CHECK(deaf.WaitUntilStuck(DeafClient::kWindow) < 40 * DeafClient::kWindow);
  CHECK(EmbedText(*deaf.server.Stub(), TextRequest({"a"})).status.ok());
  while (deaf.server.calls.open() != DeafClient::kWindow) std::this_thread::yield();  // the other's last call goes
  deaf.client.context.TryCancel();
  deaf.writer.join();
  CHECK(deaf.client.stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  CHECK(deaf.server.calls.WaitUntilNone(deaf.server.clock.Now() + std::chrono::seconds(60)));
}

TEST_CASE(
    "a client that never reads is given no more answers than the limit for all calls, and gives them back at its end") {
  DeafClient deaf(/*window=*/1000, {.max_unsent_answer_bytes = 400000});
  deaf.WaitUntilStuck(9);  // nine or ten answers of 40 KB reach the limit
  CHECK(deaf.server.calls.open() < 20);
  CHECK(deaf.server.answers.reserved() < 400000 + 41000);
  deaf.client.context.TryCancel();
  deaf.writer.join();
  while (!EmbedText(*deaf.server.Stub(), TextRequest({"a"})).status.ok()) std::this_thread::yield();
  deaf.server.server->Shutdown(std::chrono::seconds(60));
  CHECK(deaf.server.answers.reserved() == 0);
}

TEST_CASE("an input over the limit of unsent answers is refused by its own answer, and the stream goes on") {
  FakeEngine engine(10000);
  engine.Hold();
  TestServer server(&engine, {}, {.max_unsent_answer_bytes = 65536});
  Client client(server);
  for (uint64_t id = 1; id <= 2; ++id) client.stream->Write(StreamText(id, "a"));
  engine.WaitUntilSubmitted(2);
  Client second(server);
  second.stream->Write(StreamText(3, "a"));
  v1::EmbedStreamResponse answer;
  REQUIRE(second.stream->Read(&answer));
  CHECK(answer.result().error().code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  engine.Release();
  for (int i = 0; i < 2; ++i) REQUIRE(client.stream->Read(&answer));
  REQUIRE(server.calls.WaitUntilNone(server.clock.Now() + std::chrono::seconds(60)));
  second.stream->Write(StreamText(4, "a"));
  REQUIRE(second.stream->Read(&answer));
  CHECK(answer.result().has_embeddings());
}

TEST_CASE("a client that never reads holds the drain for a short grace only, then its answers are cut") {
  DeafClient deaf;
  deaf.WaitUntilStuck(DeafClient::kWindow);
  const DrainResult left = Drain(*deaf.server.server, deaf.engine, deaf.server.calls, std::chrono::seconds(60));
  CHECK(left.unanswered == 0);
  CHECK(left.unsent == DeafClient::kWindow);
  deaf.writer.join();
  CHECK(deaf.server.calls.open() == 0);
  for (v1::EmbedStreamResponse answer; deaf.client.stream->Read(&answer);) {
  }
  CHECK_FALSE(deaf.client.stream->Finish().ok());
}

TEST_CASE("a drain ends a stream that sends without pause: what it had taken is answered, then it is UNAVAILABLE") {
  FakeEngine engine;
  TestServer server(&engine);
  Client client(server);
  std::thread writer([&] {
    for (uint64_t id = 0; client.stream->Write(StreamText(id, "a")); ++id) {
    }
  });
  size_t vectors = 0;
  size_t refused = 0;
  grpc::Status status;
  std::thread reader([&] {
    for (v1::EmbedStreamResponse answer; client.stream->Read(&answer);) {
      vectors += answer.result().has_embeddings() ? 1 : 0;
      refused += answer.result().error().code() == grpc::StatusCode::UNAVAILABLE ? 1 : 0;
    }
    writer.join();
    status = client.stream->Finish();
  });
  engine.WaitUntilSubmitted(1000);
  const DrainResult left = Drain(*server.server, engine, server.calls, std::chrono::seconds(60));
  reader.join();
  CHECK(left.unanswered == 0);
  CHECK(left.unsent == 0);
  CHECK(vectors == engine.submitted());
  CHECK(refused <= 1);  // read before the drain began, submitted after it
  CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(status.error_message() == "the server is draining");
}

TEST_CASE("no more than the window's number of inputs of one stream reaches the engine unanswered") {
  constexpr size_t kWindow = 8;
  FakeEngine engine;
  engine.Hold();
  TestServer server(&engine, {.stream_window_inputs = kWindow});
  Client client(server);
  for (uint64_t id = 0; id < 3 * kWindow; ++id) client.stream->Write(StreamText(id, "a"));
  engine.WaitUntilSubmitted(kWindow);
  const auto other = server.Stub();
  for (int i = 0; i < 100; ++i) {  // the server goes on, but reads no further
    grpc::ClientContext context;
    v1::ListModelsResponse models;
    REQUIRE(other->ListModels(&context, {}, &models).ok());
    REQUIRE(engine.submitted() == kWindow);
  }
  engine.ReleaseOne();
  engine.WaitUntilSubmitted(kWindow + 1);
  engine.Release();
  client.stream->WritesDone();
  size_t answers = 0;
  for (v1::EmbedStreamResponse answer; client.stream->Read(&answer);) ++answers;
  CHECK(answers == 3 * kWindow);
  CHECK(client.stream->Finish().ok());
}

TEST_CASE("a slow reader gets every answer although the window is far smaller than the stream") {
  FakeEngine engine(2000);
  TestServer server(&engine, {.stream_window_inputs = 4});
  Client client(server);
  constexpr uint64_t kInputs = 500;
  std::thread writer([&] {
    for (uint64_t id = 0; id < kInputs; ++id) client.stream->Write(StreamText(id, "a"));
    client.stream->WritesDone();
  });
  std::vector<bool> seen(kInputs);
  for (v1::EmbedStreamResponse answer; client.stream->Read(&answer);) {
    REQUIRE(answer.id() < kInputs);
    REQUIRE_FALSE(seen[answer.id()]);
    seen[answer.id()] = true;
  }
  writer.join();
  CHECK(client.stream->Finish().ok());
  CHECK(std::count(seen.begin(), seen.end(), true) == kInputs);
}

}  // namespace
}  // namespace tributary
