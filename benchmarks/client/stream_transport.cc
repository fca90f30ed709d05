// One EmbedStream: inputs are written one after the other, answers come in any order and find their call by id.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "benchmarks/client/transport.h"
#include "tributary/v1/embedding_service.grpc.pb.h"

namespace tributary::bench {
namespace {

// Invariants: one read and at most one write are outstanding; every Send is in in_flight_ until its answer or OnDone.
class StreamTransport final : public Transport,
                              public grpc::ClientBidiReactor<v1::EmbedStreamRequest, v1::EmbedStreamResponse> {
 public:
  StreamTransport(std::shared_ptr<grpc::Channel> channel, const Requests& requests)
      : stub_(v1::EmbeddingService::NewStub(std::move(channel))), requests_(requests) {
    stub_->async()->EmbedStream(&context_, this);
    AddHold();  // writes are started from outside the reactions
    StartRead(&response_);
    StartCall();
  }
  ~StreamTransport() override { Close(); }

  void Send(Kind kind, size_t index, Done done) override {
    v1::EmbedStreamRequest message;
    switch (kind) {
      case Kind::kText:
        *message.mutable_text() = requests_.text(index).texts(0);
        *message.mutable_options() = requests_.text(index).options();
        break;
      case Kind::kImage:
        *message.mutable_image() = requests_.image(index).images(0);
        *message.mutable_options() = requests_.image(index).options();
        break;
      case Kind::kPair:
        *message.mutable_pair() = requests_.pair(index).pairs(0);
        *message.mutable_options() = requests_.pair(index).options();
        break;
    }
    {
      std::lock_guard lock(mutex_);
      if (!finished_) {
        message.set_id(++last_id_);
        in_flight_.emplace(last_id_, std::move(done));
        to_write_.push_back(std::move(message));
        WriteNext();
        return;
      }
    }
    done(Failed(status_));  // does not change any more
  }

  void Close() override {
    {
      std::lock_guard lock(mutex_);
      if (!closing_) {
        closing_ = true;
        context_.TryCancel();
        RemoveHold();
      }
    }
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return done_; });
  }

 private:
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    to_write_.pop_front();
    writing_ = false;
    if (ok) WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // The stream is over: let go of the hold so that OnDone can come.
      std::lock_guard lock(mutex_);
      if (!closing_) {
        closing_ = true;
        RemoveHold();
      }
      return;
    }
    Done done;
    {
      std::lock_guard lock(mutex_);
      const auto found = in_flight_.find(response_.id());
      if (found != in_flight_.end()) {
        done = std::move(found->second);
        in_flight_.erase(found);
      }
    }
    Outcome outcome;
    if (response_.result().has_error()) {
      ++outcome.errors[CodeName(response_.result().error().code())];
    } else {
      outcome.ok_inputs = 1;
      outcome.tokens = response_.result().token_count();
    }
    StartRead(&response_);
    if (done) done(outcome);
  }

  void OnDone(const grpc::Status& status) override {
    std::unordered_map<uint64_t, Done> left;
    {
      std::lock_guard lock(mutex_);
      finished_ = true;
      status_ = status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ended the stream") : status;
      left.swap(in_flight_);
    }
    for (auto& [id, done] : left) done(Failed(status_));
    std::lock_guard lock(mutex_);
    done_ = true;
    idle_.notify_all();
  }

  static Outcome Failed(const grpc::Status& status) {
    Outcome outcome;
    ++outcome.errors[CodeName(status.error_code())];
    return outcome;
  }

  // Under mutex_.
  void WriteNext() {
    if (writing_ || to_write_.empty() || closing_) return;
    writing_ = true;
    StartWrite(&to_write_.front());
  }

  const std::unique_ptr<v1::EmbeddingService::Stub> stub_;
  const Requests& requests_;
  grpc::ClientContext context_;
  v1::EmbedStreamResponse response_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<uint64_t, Done> in_flight_;
  std::deque<v1::EmbedStreamRequest> to_write_;  // the front one is being written while writing_
  uint64_t last_id_ = 0;
  bool writing_ = false;
  bool closing_ = false;   // the hold is gone
  bool finished_ = false;  // no answer will come any more
  bool done_ = false;      // the reactor may be destroyed
  grpc::Status status_;    // why, once finished_
};

}  // namespace

std::unique_ptr<Transport> MakeStreamTransport(std::shared_ptr<grpc::Channel> channel, const Requests& requests) {
  return std::make_unique<StreamTransport>(std::move(channel), requests);
}

}  // namespace tributary::bench
