#include "server/stream_reactor.h"

#include <utility>

#include "server/grpc_status.h"
#include "server/wire_convert.h"
#include "server/wire_message.h"

namespace tributary {

StreamReactor::StreamReactor(const CallEnvironment& environment, const grpc::CallbackServerContext& context)
    : environment_(environment),
      record_(environment, RpcMethod::kEmbedStream),
      deadline_(environment.Deadline(context)) {
  reading_ = true;
  StartRead(&read_);
}

void StreamReactor::OnReadDone(bool ok) {
  if (!ok) {
    EndInput(absl::OkStatus());
    return;
  }
  auto message = ParseMessage<v1::EmbedStreamRequest>(&read_);
  if (!message.ok()) {
    EndInput(message.status());
    return;
  }
  // Not counted: the server drains. What was read before is answered, then the client must go elsewhere.
  if (!environment_.calls->TryAdd()) {
    EndInput(absl::UnavailableError("the server is draining"));
    return;
  }
  {
    MutexLock lock(mutex_);
    ++open_inputs_;  // before Submit: the answer may be there before it returns
  }
  const uint64_t id = (*message)->id();
  if (absl::Status status = Submit(id, *std::move(message)); !status.ok()) AnswerError(id, status);
  Actions actions;
  {
    MutexLock lock(mutex_);
    reading_ = false;
    actions = Next();
  }
  Act(std::move(actions));
}

absl::Status StreamReactor::Submit(uint64_t id, std::shared_ptr<const v1::EmbedStreamRequest> message) {
  absl::StatusOr<WireRequest> call = FromWire(std::move(message));
  if (!call.ok()) return call.status();
  if (absl::Status status = environment_.CheckCall(*call); !status.ok()) return status;
  EmbedRequest request = std::move(call->request);
  request.options.deadline = deadline_;
  request.cancel = cancel_;
  return environment_.engine->Submit(std::move(request), [this, id, float16 = call->float16,
                                                          errors = std::move(call->errors)](EmbedResponse response) {
    PutErrors(errors, &response);
    Answer(id, float16, response);
  });
}

void StreamReactor::Answer(uint64_t id, bool float16, const EmbedResponse& response) {
  environment_.LogFaults(record_.method(), response);
  v1::EmbedStreamResponse message;
  message.set_id(id);
  message.set_model(response.model);
  message.set_model_revision(response.model_revision);
  ToWire(response.results.front(), float16, message.mutable_result());
  Enqueue(message);
}

void StreamReactor::AnswerError(uint64_t id, const absl::Status& status) {
  environment_.LogFaults(record_.method(), status);
  v1::EmbedStreamResponse message;
  message.set_id(id);
  ToRpcStatus(status, message.mutable_result()->mutable_error());
  Enqueue(message);
}

void StreamReactor::Enqueue(const v1::EmbedStreamResponse& message) {
  grpc::ByteBuffer bytes = SerializeMessage(message);
  CallTracker* const calls = environment_.calls;  // once the lock is released, `this` may be gone
  Actions actions;
  bool dropped = false;
  {
    MutexLock lock(mutex_);
    dropped = abandoned_;
    if (dropped) {
      --open_inputs_;
    } else {
      unsent_.push_back(std::move(bytes));
    }
    actions = Next();
  }
  Act(std::move(actions));
  if (dropped) calls->Remove();
}

void StreamReactor::OnWriteDone(bool ok) {
  CallTracker* const calls = environment_.calls;
  written_.Clear();
  if (!ok) Abandon();
  Actions actions;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    --open_inputs_;
    actions = Next();
  }
  Act(std::move(actions));
  calls->Remove();  // last: where this was the stream's end, its status is on the way
}

void StreamReactor::OnCancel() {
  // gRPC also cancels streams whose deadline has passed: those inputs the engine drops by itself, counted as expired.
  if (environment_.clock->Now() < deadline_) cancel_->Cancel();
  Abandon();
}

void StreamReactor::Abandon() {
  CallTracker* const calls = environment_.calls;
  size_t dropped = 0;
  Actions actions;
  {
    MutexLock lock(mutex_);
    abandoned_ = true;
    dropped = unsent_.size();
    open_inputs_ -= dropped;
    unsent_.clear();
    actions = Next();
  }
  Act(std::move(actions));
  calls->Remove(dropped);
}

void StreamReactor::EndInput(const absl::Status& status) {
  Actions actions;
  {
    MutexLock lock(mutex_);
    reading_ = false;
    input_ended_ = true;
    end_status_ = status;
    actions = Next();
  }
  Act(std::move(actions));
}

StreamReactor::Actions StreamReactor::Next() {
  Actions actions;
  if (!writing_ && !unsent_.empty()) {
    written_.Swap(&unsent_.front());
    unsent_.pop_front();
    writing_ = actions.write = true;
  }
  if (!reading_ && !input_ended_ && !abandoned_ && open_inputs_ < environment_.limits.stream_window_inputs) {
    reading_ = actions.read = true;
  }
  const bool no_more_input = input_ended_ || (abandoned_ && !reading_);
  if (no_more_input && open_inputs_ == 0 && !writing_ && !finished_) {
    finished_ = true;
    actions.finish = ToGrpcStatus(abandoned_ ? absl::CancelledError("the stream was cancelled") : end_status_);
    code_ = actions.finish->error_code();
  }
  return actions;
}

void StreamReactor::Act(Actions actions) {
  if (actions.read) StartRead(&read_);
  if (actions.write) StartWrite(&written_);
  if (actions.finish) Finish(*std::move(actions.finish));
}

void StreamReactor::OnDone() {
  record_.Finished(code_);
  delete this;
}

}  // namespace tributary
