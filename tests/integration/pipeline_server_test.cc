// Calls through the whole service: gRPC, admission, preparation, queues, scheduler, lanes, fusion, completion, with a
// torch-free model.
#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "engine/api/observer.h"
#include "engine/lane/cpu_device.h"
#include "engine/pipeline/pipeline.h"
#include "tests/support/catch.h"
#include "tests/support/fake_model.h"
#include "tests/support/test_server.h"
#include "tests/support/thread_recorder.h"

namespace tributary {
namespace {

// The engine and the server around it.
struct House {
  explicit House(const FakeModelOptions& model = {}, const EngineOptions& options = {}, size_t lanes = 1,
                 size_t devices = 1) {
    FakeParts parts = MakeFakePipelineParts(&clock, model, lanes);
    while (parts.parts.devices.size() < devices) {
      parts.parts.devices.push_back({CreateCpuDevice({}, &clock), lanes, 2});
    }
    control = parts.control;
    auto created = CreatePipeline(options, std::move(parts.parts), &clock, &observer);
    if (!created.ok()) throw std::runtime_error(created.status().ToString());
    engine = *std::move(created);
    server = std::make_unique<TestServer>(engine.get());
  }
  SteadyClock clock;
  Observer observer;
  std::shared_ptr<FakeControl> control;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<TestServer> server;
};

v1::EmbedImageRequest Images(const std::vector<std::string>& files) {
  v1::EmbedImageRequest request;
  for (const std::string& file : files) request.add_images()->set_encoded(file);
  return request;
}

Reply EmbedImage(v1::EmbeddingService::Stub& stub, const v1::EmbedImageRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  Reply reply;
  reply.status = stub.EmbedImage(&context, request, &reply.response);
  return reply;
}

TEST_CASE("7 good images and 1 broken one in one call: 7 vectors, 1 INVALID_ARGUMENT") {
  House house;
  std::vector<std::string> files;
  for (int i = 0; i < 8; ++i) files.push_back(i == 3 ? std::string(fake::kRefused) : "image " + std::to_string(i));
  const auto stub = house.server->Stub();
  const Reply reply = EmbedImage(*stub, Images(files));
  REQUIRE(reply.status.ok());
  REQUIRE(reply.response.results_size() == 8);
  for (int i = 0; i < 8; ++i) {
    INFO(i);
    CHECK(reply.response.results(i).has_embeddings() == (i != 3));
    if (i != 3) CHECK(reply.response.results(i).embeddings().image().float32_size() == 8);
  }
  CHECK(reply.response.results(3).error().code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(EmbedImage(*stub, Images({"again"})).status.ok());
}

TEST_CASE("7 good images and 1 broken one in concurrent calls: 7 vectors, 1 INVALID_ARGUMENT") {
  House house;
  const auto stub = house.server->Stub();
  std::vector<Reply> replies(8);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < replies.size(); ++i) {
    clients.emplace_back([&, i] {
      replies[i] = EmbedImage(*stub, Images({i == 3 ? std::string(fake::kRefused) : "image " + std::to_string(i)}));
    });
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < replies.size(); ++i) {
    INFO(i);
    REQUIRE(replies[i].status.ok());
    REQUIRE(replies[i].response.results_size() == 1);
    const v1::EmbedResult& result = replies[i].response.results(0);
    CHECK(result.has_embeddings() == (i != 3));
    CHECK(result.error().code() == (i == 3 ? grpc::StatusCode::INVALID_ARGUMENT : grpc::StatusCode::OK));
  }
}

TEST_CASE("6,000 texts in one call: a clean limit error, and the server lives on") {
  House house;
  const auto stub = house.server->Stub();
  const Reply reply = EmbedText(*stub, TextRequest(std::vector<std::string>(6000, "a text")));
  CHECK(reply.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(reply.status.error_message().find("6000") != std::string::npos);
  CHECK(reply.status.error_message().find("1024") != std::string::npos);
  CHECK(EmbedText(*stub, TextRequest({"a text"})).status.ok());
}

TEST_CASE("200 calls with a 5 ms deadline, then 200 normal ones: all 200 OK") {
  FakeModelOptions slow;
  slow.cost_per_batch = std::chrono::milliseconds(2);
  slow.max_batch_items = 2;  // so that most of the first 200 cannot make it
  House house(slow);
  const auto stub = house.server->Stub();
  auto send_200 = [&](std::chrono::milliseconds deadline) {
    std::atomic<size_t> ok{0};
    std::vector<std::thread> clients;
    for (int client = 0; client < 20; ++client) {
      clients.emplace_back([&] {
        for (int i = 0; i < 10; ++i) {
          grpc::ClientContext context;
          context.set_deadline(std::chrono::system_clock::now() + deadline);
          v1::EmbedResponse response;
          const grpc::Status status = stub->EmbedText(&context, TextRequest({"text"}), &response);
          if (status.ok() && response.results(0).has_embeddings()) ++ok;
        }
      });
    }
    for (std::thread& client : clients) client.join();
    return ok.load();
  };
  CHECK(send_200(std::chrono::milliseconds(5)) < 200);
  CHECK(send_200(std::chrono::seconds(60)) == 200);
  CHECK(house.server->calls.WaitUntilNone(house.clock.Now() + std::chrono::seconds(60)));
  CHECK(house.engine->WaitUntilIdle(std::chrono::seconds(60)));
}

TEST_CASE("a pair call returns text, image and fused vectors, and only what was given") {
  House house;
  v1::EmbedPairRequest request;
  request.add_pairs()->mutable_text()->set_text("cat");
  request.mutable_pairs(0)->mutable_image()->set_encoded("photo");
  request.add_pairs()->mutable_text()->set_text("cat");
  request.add_pairs()->mutable_image()->set_encoded("photo");
  grpc::ClientContext context;
  v1::EmbedResponse response;
  REQUIRE(house.server->Stub()->EmbedPair(&context, request, &response).ok());
  REQUIRE(response.results_size() == 3);
  for (int i = 0; i < 3; ++i) {
    INFO(i);
    const v1::Embeddings& embeddings = response.results(i).embeddings();
    CHECK(embeddings.has_text() == (i != 2));
    CHECK(embeddings.has_image() == (i != 1));
    CHECK(embeddings.fused().float32_size() == 8);
  }
}

TEST_CASE("the parts of a pair run on two CPU lanes at the same moment, each its encoder's own") {
  FakeModelOptions model;
  model.placement = {{{0}, {1}, {0, 1}}};
  House house(model, {}, 1, 2);
  house.control->Hold();
  v1::EmbedPairRequest request;
  request.add_pairs()->mutable_text()->set_text("cat");
  request.mutable_pairs(0)->mutable_image()->set_encoded("photo");
  v1::EmbedResponse response;
  auto call = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    return house.server->Stub()->EmbedPair(&context, request, &response).ok();
  });
  house.control->WaitUntilBegun(2);  // and neither has ended
  CHECK(house.control->RunningOn(0) == 1);
  CHECK(house.control->RunningOn(1) == 1);
  house.control->Release();
  CHECK(call.get());
  REQUIRE(response.results_size() == 1);
  CHECK(response.results(0).embeddings().has_text());
  CHECK(response.results(0).embeddings().has_image());
  CHECK(response.results(0).embeddings().fused().float32_size() == 8);
}

TEST_CASE("a batch that fails is INTERNAL for its inputs only, and the server lives on") {
  House house;
  const auto stub = house.server->Stub();
  for (const std::string_view fault : {fake::kRunThrows, fake::kRunFails, fake::kStageThrows, fake::kNotANumber}) {
    const Reply reply = EmbedText(*stub, TextRequest({std::string(fault)}));
    REQUIRE(reply.status.ok());
    CHECK(reply.response.results(0).error().code() == grpc::StatusCode::INTERNAL);
    CHECK(EmbedText(*stub, TextRequest({"good"})).response.results(0).has_embeddings());
  }
}

TEST_CASE("gRPC's threads neither tokenise nor decode, and answers are made on completion threads") {
  SteadyClock clock;
  Observer observer;
  ThreadRecorder threads;
  EngineOptions options;
  options.prepare.threads = 1;
  FakeParts fakes = MakeFakePipelineParts(&clock);
  RecordThreads(fakes.parts, &threads);
  const auto engine = CreatePipeline(options, std::move(fakes.parts), &clock, &observer);
  REQUIRE(engine.ok());
  TestServer server(engine->get());
  const auto stub = server.Stub();

  // A fault is logged by whoever makes the answer.
  const std::string fault(fake::kRunFails);
  CHECK(EmbedText(*stub, TextRequest({fault})).status.ok());
  CHECK(EmbedImage(*stub, Images({fault})).status.ok());
  grpc::ClientContext context;
  const auto stream = stub->EmbedStream(&context);
  REQUIRE(stream->Write(StreamText(1, fault)));
  v1::EmbedStreamResponse answer;
  REQUIRE(stream->Read(&answer));
  stream->WritesDone();
  CHECK(stream->Finish().ok());

  using Names = std::set<std::string>;
  CHECK(threads.ThreadsOf("tokenise") == Names{"trib-token-0"});
  CHECK(threads.ThreadsOf("decode") == Names{"trib-decode-0"});
  CHECK(server.Log().size() == 3);
  CHECK(server.LogThreads() == Names{"trib-done-0"});
}

TEST_CASE("a stream of 1,000 inputs and the same inputs one by one get the same vectors") {
  House house;
  const auto stub = house.server->Stub();
  grpc::ClientContext context;
  const auto stream = stub->EmbedStream(&context);
  constexpr uint64_t kInputs = 1000;
  std::thread writer([&] {
    for (uint64_t id = 0; id < kInputs; ++id) stream->Write(StreamText(id, "text " + std::to_string(id % 10)));
    stream->WritesDone();
  });
  std::vector<std::string> vectors(kInputs);
  for (v1::EmbedStreamResponse answer; stream->Read(&answer);) {
    vectors.at(answer.id()) = answer.result().embeddings().text().SerializeAsString();
  }
  writer.join();
  CHECK(stream->Finish().ok());
  std::vector<std::string> texts;
  for (int i = 0; i < 10; ++i) texts.push_back("text " + std::to_string(i));
  const Reply unary = EmbedText(*stub, TextRequest(texts));
  REQUIRE(unary.status.ok());
  size_t equal = 0;
  for (uint64_t id = 0; id < kInputs; ++id) {
    const auto& text = unary.response.results(static_cast<int>(id % 10)).embeddings().text();
    equal += vectors[id] == text.SerializeAsString() ? 1 : 0;
  }
  CHECK(equal == kInputs);
}

TEST_CASE("shorter vectors and prompts go the whole way, and what the model lacks is refused with what it has") {
  FakeModelOptions model;
  model.info.matryoshka_dimensions = {4};
  model.prompts = {{"query", "q: "}, {"document", "d: "}};
  model.info.default_prompt = "document";
  House house(model);
  const auto stub = house.server->Stub();
  const auto vector = [&](const std::string& text, const std::optional<std::string>& prompt, uint32_t dimensions) {
    v1::EmbedTextRequest request = TextRequest({text});
    request.mutable_options()->set_dimensions(dimensions);
    request.mutable_options()->set_normalise(false);
    if (prompt) request.mutable_options()->set_prompt_name(*prompt);
    const Reply reply = EmbedText(*stub, request);
    REQUIRE(reply.status.ok());
    const auto& numbers = reply.response.results(0).embeddings().text().float32();
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  const std::vector<float> full = vector("d: cat", "", 0);
  REQUIRE(full.size() == 8);
  CHECK(vector("cat", std::nullopt, 0) == full);
  CHECK(vector("cat", std::nullopt, 4) == std::vector<float>(full.begin(), full.begin() + 4));
  CHECK(vector("cat", "query", 8) == vector("q: cat", "", 0));

  v1::EmbedTextRequest request = TextRequest({"cat"});
  request.mutable_options()->set_dimensions(5);
  CHECK(EmbedText(*stub, request).status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(EmbedText(*stub, request).status.error_message() == "dimensions is 5, model 'fake' gives 4 or 8");
  request.mutable_options()->set_dimensions(4);
  request.mutable_options()->set_prompt_name("title");
  CHECK(EmbedText(*stub, request).status.error_message() ==
        "prompts of model 'fake' are document, query; prompt_name is 'title'");
}

TEST_CASE("a cancelled call gives its place back without running") {
  House house;
  house.control->Hold();
  const auto stub = house.server->Stub();
  std::thread first([&] { EmbedText(*stub, TextRequest({"first"})); });
  house.control->WaitUntilBegun(1);
  grpc::ClientContext context;
  grpc::Status status;
  std::thread second([&] {
    v1::EmbedResponse response;
    status = stub->EmbedText(&context, TextRequest(std::vector<std::string>(50, "second")), &response);
  });
  while (house.engine->Snapshot().items_in_flight < 51) std::this_thread::yield();
  context.TryCancel();
  second.join();
  CHECK(status.error_code() == grpc::StatusCode::CANCELLED);
  house.control->Release();
  first.join();
  CHECK(house.engine->WaitUntilIdle(std::chrono::seconds(60)));
  CHECK(house.engine->Snapshot().items_in_flight == 0);
}

}  // namespace
}  // namespace tributary
