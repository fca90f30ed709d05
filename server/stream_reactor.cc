#include "server/stream_reactor.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
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
  const absl::StatusOr<size_t> reserved = environment_.CheckCall(*call);
  if (!reserved.ok()) return reserved.status();
  if (absl::Status status = environment_.answers->Reserve(*reserved); !status.ok()) return status;
  EmbedRequest request = std::move(call->request);
  request.options.deadline = deadline_;
  request.cancel = cancel_;
  absl::Status status =
      environment_.engine->Submit(std::move(request), [this, id, encoding = call->encoding, reserved = *reserved,
                                                       errors = std::move(call->errors)](EmbedResponse response) {
        try {
          PutErrors(errors, &response);
          Answer(id, encoding, reserved, response);
        } catch (const std::exception& error) {
          // Before it was queued: Enqueue is its last step.
          environment_.answers->Release(reserved);
          AnswerError(id,
                      absl::ResourceExhaustedError(absl::StrCat("the answer could not be written: ", error.what())));
        }
      });
  if (!status.ok()) environment_.answers->Release(*reserved);
  return status;
}

void StreamReactor::Answer(uint64_t id, Encoding encoding, size_t reserved_bytes, const EmbedResponse& response) {
  environment_.LogFaults(record_.method(), response);
  v1::EmbedStreamResponse message;
  message.set_id(id);
  message.set_model(response.model);
  message.set_model_revision(response.model_revision);
  ToWire(response.results.front(), encoding, message.mutable_result());
  Enqueue({SerializeMessage(message), reserved_bytes});
}

void StreamReactor::AnswerError(uint64_t id, const absl::Status& status) {
  environment_.LogFaults(record_.method(), status);
  v1::EmbedStreamResponse message;
  message.set_id(id);
  ToRpcStatus(status, message.mutable_result()->mutable_error());
  const size_t bytes = message.ByteSizeLong();
  environment_.answers->Add(bytes);
  Enqueue({SerializeMessage(message), bytes});
}

void StreamReactor::Enqueue(Unsent answer) {
  const CallEnvironment& environment = environment_;  // once the lock is released, `this` may be gone
  const size_t reserved_bytes = answer.reserved_bytes;
  Actions actions;
  bool dropped = false;
  {
    MutexLock lock(mutex_);
    dropped = abandoned_;
    if (dropped) {
      --open_inputs_;
    } else {
      unsent_.push_back(std::move(answer));
    }
    actions = Next();
  }
  Act(std::move(actions));
  if (!dropped) return;
  environment.answers->Release(reserved_bytes);
  environment.calls->Remove();
}

void StreamReactor::OnWriteDone(bool ok) {
  const CallEnvironment& environment = environment_;
  written_.Clear();
  if (!ok) Abandon();
  Actions actions;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    --open_inputs_;
    environment.answers->Release(written_reserved_bytes_);  // before Next(): it may read on
    actions = Next();
  }
  Act(std::move(actions));
  environment.calls->Remove();  // last: where this was the stream's end, its status is on the way
}

void StreamReactor::OnCancel() {
  // gRPC also cancels streams whose deadline has passed: those inputs the engine drops by itself, counted as expired.
  if (environment_.clock->Now() < deadline_) cancel_->Cancel();
  Abandon();
}

void StreamReactor::Abandon() {
  const CallEnvironment& environment = environment_;
  size_t dropped = 0;
  Actions actions;
  {
    MutexLock lock(mutex_);
    abandoned_ = true;
    dropped = unsent_.size();
    open_inputs_ -= dropped;
    for (const Unsent& answer : unsent_) environment.answers->Release(answer.reserved_bytes);
    unsent_.clear();
    actions = Next();
  }
  Act(std::move(actions));
  environment.calls->Remove(dropped);
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
    written_.Swap(&unsent_.front().bytes);
    written_reserved_bytes_ = unsent_.front().reserved_bytes;
    unsent_.pop_front();
    writing_ = actions.write = true;
  }
  const size_t window = environment_.answers->Full() ? 1 : environment_.limits.stream_window_inputs;
  if (!reading_ && !input_ended_ && !abandoned_ && open_inputs_ < window) {
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
