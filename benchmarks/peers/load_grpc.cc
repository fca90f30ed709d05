// gRPC calls of ready messages, by the generic callback stub.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/peers/load.h"

namespace tributary::peers {
namespace {

constexpr int32_t kGrpcCodes = 1000;  // CallRecord::code of gRPC code 0

class GrpcSender final : public Sender {
 public:
  GrpcSender(const LoadOptions& options, Done done) : options_(options), done_(std::move(done)) {
    for (size_t i = 0; i < options.connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else all channels share one connection
      arguments.SetMaxReceiveMessageSize(-1);
      channels_.push_back(grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
      channels_.back()->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
      stubs_.push_back(std::make_unique<grpc::GenericStub>(channels_.back()));
    }
    for (const std::string& payload : options.payloads) {
      const grpc::Slice slice(payload);
      messages_.emplace_back(&slice, 1);
    }
  }

  ~GrpcSender() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return open_ == 0; });  // ended by their deadline, or by Wait's last cancel
  }

  void Send(size_t call, uint64_t payload) override {
    auto* const state = new Call{.context = {}, .request = messages_[payload], .answer = {}};
    if (options_.deadline_seconds > 0) {
      state->context.set_deadline(std::chrono::system_clock::now() +
                                  std::chrono::microseconds(static_cast<int64_t>(options_.deadline_seconds * 1e6)));
    } else {
      // No call outlives the run: nothing else would end it.
      state->context.set_deadline(std::chrono::system_clock::now() +
                                  std::chrono::milliseconds(static_cast<int64_t>(options_.give_up_seconds * 1e3)));
    }
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    stubs_[call % stubs_.size()]->UnaryCall(
        &state->context, options_.path, grpc::StubOptions(), &state->request, &state->answer,
        [this, call, state](const grpc::Status& status) {
          const auto bytes = static_cast<uint32_t>(status.ok() ? state->answer.Length() : 0);
          int32_t code = status.ok() ? 0 : kGrpcCodes + static_cast<int32_t>(status.error_code());
          if (code == 0 && bytes < options_.min_answer_bytes) code = kShortAnswer;
          delete state;
          done_(call, code, bytes);
          const std::lock_guard lock(mutex_);
          --open_;
          ++answers_;
          answered_.notify_one();
          idle_.notify_one();
        });
  }

  void Wait(SteadyTime until, bool wake_on_answer) override {
    std::unique_lock lock(mutex_);
    if (!wake_on_answer) {
      // Sleeping alone: a notification an answer would cost the client what it should leave to the server.
      lock.unlock();
      std::this_thread::sleep_until(until);
      return;
    }
    answered_.wait_until(lock, until, [this] { return answers_ > 0; });
    answers_ = 0;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer answer;
  };

  const LoadOptions& options_;
  Done done_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<grpc::ByteBuffer> messages_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::condition_variable idle_;
  size_t open_ = 0;
  size_t answers_ = 0;
};

}  // namespace

std::unique_ptr<Sender> MakeGrpcSender(const LoadOptions& options, Sender::Done done) {
  return std::make_unique<GrpcSender>(options, std::move(done));
}

}  // namespace tributary::peers
