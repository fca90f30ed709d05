// The reactor behind EmbedStream: many inputs in flight on one stream, answers as they finish.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "engine/api/cancel_token.h"
#include "engine/base/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/call_environment.h"
#include "server/vector_encoding.h"
#include "tributary/v1/embedding_service.pb.h"

namespace tributary {

// Who makes it: EmbedService. gRPC reactions read inputs and submit them; completion threads serialise the answers and
// queue them; one write at a time is under way.
// Invariants: at most `stream_window_inputs` inputs are open (read, and their answer not yet written), and one while
// the
//   answer budget is full: then no read is started, so HTTP/2 flow control stops the client, and a client that never
//   reads holds no more than that. Finish is
//   called once, when no more input will come, nothing is open and no write is under way; OnDone is the end of the
//   object.
// Errors: what concerns one input is its answer; bytes that are no message end the stream with INVALID_ARGUMENT, and
//   the first input read while the server drains ends it with UNAVAILABLE, once the inputs before it are answered. A
//   cancelled stream drops its unsent answers and ends when its last input comes back.
// Thread-safety: reactions and completions run at once; the state is behind mutex_, and no gRPC call is made under it.
// Ownership: owns itself.
class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamReactor(const CallEnvironment& environment, const grpc::CallbackServerContext& context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // Not OK: nothing was submitted.
  absl::Status Submit(uint64_t id, std::shared_ptr<const v1::EmbedStreamRequest> message);
  void Answer(uint64_t id, Encoding encoding, size_t reserved_bytes, const EmbedResponse& response);
  void AnswerError(uint64_t id, const absl::Status& status);
  struct Unsent {
    grpc::ByteBuffer bytes;
    size_t reserved_bytes = 0;  // of the answer budget
  };
  void Enqueue(Unsent answer);
  // No more input will be read; `status` is how the stream ends.
  void EndInput(const absl::Status& status);
  // Drops what is unsent; nothing more is read or written.
  void Abandon();

  // What the state allows to start now. The state says already that it has begun.
  struct Actions {
    bool read = false;
    bool write = false;
    std::optional<grpc::Status> finish;
  };
  // Every change of state ends with Next() under the same lock, then Act() without it. Only so may a completion thread
  // let go of the lock: what it starts itself keeps `this` alive, and otherwise it touches nothing any more.
  Actions Next() TRIBUTARY_REQUIRES(mutex_);
  void Act(Actions actions);

  const CallEnvironment& environment_;
  const CallRecord record_;
  const TimePoint deadline_;
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();

  grpc::ByteBuffer read_;     // gRPC's while a read is under way
  grpc::ByteBuffer written_;  // gRPC's while a write is under way

  Mutex mutex_;
  std::deque<Unsent> unsent_ TRIBUTARY_GUARDED_BY(mutex_);
  size_t written_reserved_bytes_ TRIBUTARY_GUARDED_BY(mutex_) = 0;  // of the answer being written
  size_t open_inputs_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
  bool reading_ TRIBUTARY_GUARDED_BY(mutex_) = false;  // a read is under way or being handled
  bool writing_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  bool input_ended_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  bool abandoned_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  bool finished_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ TRIBUTARY_GUARDED_BY(mutex_);
  grpc::StatusCode code_ = grpc::StatusCode::OK;  // written before Finish, read in OnDone
};

}  // namespace tributary
