// A gRPC server in the test's process, on a port the system picks, around any engine; and clients of it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "server/answer_budget.h"
#include "server/call_tracker.h"
#include "server/embed_service.h"
#include "server/error_log.h"
#include "server/grpc_server.h"
#include "server/rpc_observer.h"
#include "server/served_models.h"
#include "tests/support/thread_name.h"
#include "tributary/v1/embedding_service.grpc.pb.h"

namespace tributary {

// Counts calls by method and code. Thread-safety: all methods.
class CountingRpcObserver final : public RpcObserver {
 public:
  void OnRpcStarted(RpcMethod /*method*/) override {
    std::lock_guard lock(mutex_);
    ++started_;
  }
  void OnRpcFinished(RpcMethod method, absl::StatusCode code, Duration /*elapsed*/) override {
    std::lock_guard lock(mutex_);
    finished_.emplace_back(method, code);
  }
  size_t started() const {
    std::lock_guard lock(mutex_);
    return started_;
  }
  std::vector<std::pair<RpcMethod, absl::StatusCode>> finished() const {
    std::lock_guard lock(mutex_);
    return finished_;
  }

 private:
  mutable std::mutex mutex_;
  size_t started_ = 0;
  std::vector<std::pair<RpcMethod, absl::StatusCode>> finished_;
};

// Member order is destruction order reversed: the server and its calls end before what they borrow. `engine` must
// outlive this.
struct TestServer {
  explicit TestServer(Engine* engine, CallLimits limits = {}, GrpcServerOptions options = {})
      : errors(&clock, 1000,
               [this](const std::string& line) {
                 std::lock_guard lock(log_mutex);
                 log.push_back(line);
                 log_threads.insert(CurrentThreadName());
               }),
        answers(options.max_unsent_answer_bytes),
        models(engine),
        service({.engine = engine,
                 .clock = &clock,
                 .observer = &observer,
                 .errors = &errors,
                 .calls = &calls,
                 .answers = &answers,
                 .limits = limits,
                 .models = &models}) {
    options.listen = "127.0.0.1:0";
    auto created = GrpcServer::Create(options, &service);
    if (!created.ok()) throw std::runtime_error(created.status().ToString());
    server = *std::move(created);
  }

  // Each has its own connection.
  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A window that does not grow: what a client does not read stays with the server.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server->port()), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  std::unique_ptr<v1::EmbeddingService::Stub> Stub() const { return v1::EmbeddingService::NewStub(Connect()); }
  std::vector<std::string> Log() {
    std::lock_guard lock(log_mutex);
    return log;
  }
  std::set<std::string> LogThreads() {
    std::lock_guard lock(log_mutex);
    return log_threads;
  }

  SteadyClock clock;
  CountingRpcObserver observer;
  std::mutex log_mutex;
  std::vector<std::string> log;
  std::set<std::string> log_threads;  // that wrote it: answers with faults are logged where they are made
  ErrorLog errors;
  CallTracker calls;
  AnswerBudget answers;
  ServedModels models;
  EmbedService service;
  std::unique_ptr<GrpcServer> server;
};

// Far more than any step needs on a busy machine: a test that hits it has hung.
inline std::chrono::system_clock::time_point TestDeadline() {
  return std::chrono::system_clock::now() + std::chrono::seconds(60);
}

inline v1::EmbedTextRequest TextRequest(const std::vector<std::string>& texts) {
  v1::EmbedTextRequest request;
  for (const std::string& text : texts) request.add_texts()->set_text(text);
  return request;
}

inline v1::EmbedStreamRequest StreamText(uint64_t id, const std::string& text) {
  v1::EmbedStreamRequest request;
  request.set_id(id);
  request.mutable_text()->set_text(text);
  return request;
}

struct Reply {
  grpc::Status status;
  v1::EmbedResponse response;
};

inline Reply EmbedText(v1::EmbeddingService::Stub& stub, const v1::EmbedTextRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  Reply reply;
  reply.status = stub.EmbedText(&context, request, &reply.response);
  return reply;
}

}  // namespace tributary
