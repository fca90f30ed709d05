// Unary calls through gRPC's callback API.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <unordered_set>

#include "absl/status/status.h"
#include "benchmarks/client/transport.h"
#include "tributary/v1/embedding_service.grpc.pb.h"

namespace tributary::bench {
namespace {

class UnaryTransport final : public Transport {
 public:
  UnaryTransport(std::shared_ptr<grpc::Channel> channel, const Requests& requests, std::chrono::milliseconds deadline)
      : stub_(v1::EmbeddingService::NewStub(std::move(channel))), requests_(requests), deadline_(deadline) {}
  ~UnaryTransport() override { Close(); }

  void Send(Kind kind, size_t index, Done done) override {
    Call* const call = std::make_unique<Call>().release();  // Finish takes it back
    call->done = std::move(done);
    if (deadline_.count() > 0) call->context.set_deadline(std::chrono::system_clock::now() + deadline_);
    {
      std::lock_guard lock(mutex_);
      calls_.insert(call);
      ++open_;
    }
    auto* const async = stub_->async();
    switch (kind) {
      case Kind::kText: {
        const auto& request = requests_.text(index);
        Start(call, request.texts_size(),
              [&](auto f) { async->EmbedText(&call->context, &request, &call->response, f); });
        break;
      }
      case Kind::kImage: {
        const auto& request = requests_.image(index);
        Start(call, request.images_size(),
              [&](auto f) { async->EmbedImage(&call->context, &request, &call->response, f); });
        break;
      }
      case Kind::kPair: {
        const auto& request = requests_.pair(index);
        Start(call, request.pairs_size(),
              [&](auto f) { async->EmbedPair(&call->context, &request, &call->response, f); });
        break;
      }
    }
  }

  void Close() override {
    std::unique_lock lock(mutex_);
    for (Call* call : calls_) call->context.TryCancel();
    idle_.wait(lock, [&] { return open_ == 0; });
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::EmbedResponse response;
    Done done;
  };

  template <typename StartRpc>
  void Start(Call* call, int inputs, const StartRpc& start) {
    start([this, call, inputs](const grpc::Status& status) { Finish(call, inputs, status); });
  }

  // The call is gone before Close may return: its context holds the channel, and whoever drops that last waits for
  // gRPC's own threads, of which this is one.
  void Finish(Call* call, int inputs, const grpc::Status& status) {
    Outcome outcome;
    if (!status.ok()) outcome.errors[CodeName(status.error_code())] += static_cast<uint64_t>(inputs);
    for (const auto& result : call->response.results()) {
      if (result.has_error()) {
        ++outcome.errors[CodeName(result.error().code())];
      } else {
        ++outcome.ok_inputs;
        outcome.tokens += result.token_count();
      }
    }
    const Done done = std::move(call->done);
    {
      std::lock_guard lock(mutex_);
      calls_.erase(call);
    }
    std::unique_ptr<Call>(call).reset();
    done(outcome);
    std::lock_guard lock(mutex_);
    if (--open_ == 0) idle_.notify_all();
  }

  const std::unique_ptr<v1::EmbeddingService::Stub> stub_;
  const Requests& requests_;
  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_set<Call*> calls_;  // unanswered, owned
  size_t open_ = 0;                  // those, and the ones whose `done` is running
};

}  // namespace

std::unique_ptr<Transport> MakeUnaryTransport(std::shared_ptr<grpc::Channel> channel, const Requests& requests,
                                              std::chrono::milliseconds deadline) {
  return std::make_unique<UnaryTransport>(std::move(channel), requests, deadline);
}

std::string CodeName(int code) {
  std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
  return name.empty() ? "CODE_" + std::to_string(code) : name;
}

}  // namespace tributary::bench
