#include "server/call_environment.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tributary {

absl::Status NoSuchModel(const std::vector<ModelInfo>& models, std::string_view name) {
  auto append_name = [](std::string* out, const ModelInfo& model) { out->append(model.name); };
  // The served names first: the message is cut at its end, and the name asked for may be of any length.
  return absl::NotFoundError(absl::StrCat("models served are ", absl::StrJoin(models, ", ", append_name), ", not \"",
                                          std::string(name), "\""));
}

absl::StatusOr<size_t> CallEnvironment::CheckCall(const WireRequest& call) const {
  const EmbedRequest& request = call.request;
  const size_t inputs = request.inputs.size();
  if (inputs > limits.max_inputs_per_call) {
    return absl::InvalidArgumentError(absl::StrCat("the call has ", inputs, " inputs, the limit is ",
                                                   limits.max_inputs_per_call, " (admission.max_inputs_per_call)"));
  }
  const ServedModels::List served = models->Get();
  const ModelInfo* model = FindModel(*served, request.options.model);
  if (model == nullptr) return NoSuchModel(*served, request.options.model);
  const size_t header_bytes = model->name.size() + model->revision.size() + 16;
  // A size over the full one is refused by the engine, as any other the model does not have.
  const size_t dimensions =
      request.options.dimensions == 0 ? model->dimensions : std::min(request.options.dimensions, model->dimensions);
  const size_t bytes = header_bytes + inputs * MaxResultBytes(dimensions, request.kind, call.encoding);
  if (bytes > limits.max_response_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the answer to ", inputs, " inputs takes up to ", bytes, " bytes, the limit is ",
                     limits.max_response_bytes, " (server.max_response_bytes): send fewer inputs in one call",
                     call.encoding == Encoding::kFloat32 ? ", or ask for float16 or int8" : ""));
  }
  return bytes;
}

TimePoint CallEnvironment::Deadline(const grpc::CallbackServerContext& context) const {
  // Not context.deadline(): a client may send a time-out of centuries, and its nanoseconds do not fit 64 bits.
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_REALTIME);
  const gpr_timespec remaining = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_REALTIME));
  constexpr int64_t kYearSeconds = int64_t{365} * 24 * 3600;  // beyond, it is none
  if (remaining.tv_sec > kYearSeconds) return kNoDeadline;
  return clock->Now() + std::chrono::seconds(remaining.tv_sec) + std::chrono::nanoseconds(remaining.tv_nsec);
}

void CallEnvironment::LogFaults(RpcMethod method, const absl::Status& status) const {
  if (status.code() == absl::StatusCode::kInternal) errors->Report(method, status);
}

void CallEnvironment::LogFaults(RpcMethod method, const EmbedResponse& response) const {
  for (const EmbedResult& result : response.results) LogFaults(method, result.status);
}

}  // namespace tributary
