#include "server/admin_service.h"

#include <chrono>
#include <exception>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "server/grpc_status.h"
#include "server/server_config.h"
#include "server/wire_convert.h"
#include "server/wire_message.h"

namespace tributary {
namespace {

constexpr size_t kMaxConfigBytes = size_t{64} << 10;
constexpr uint32_t kDefaultUnloadMillis = 60000;
constexpr uint32_t kMaxUnloadMillis = 3600000;

// gRPC shows the request as const, but owns it as a plain object that nothing reads after the handler.
grpc::ByteBuffer* Consume(const grpc::ByteBuffer* request) { return const_cast<grpc::ByteBuffer*>(request); }

// The codes of this service: the contract's, and two more.
grpc::Status ToAdminStatus(const absl::Status& status) {
  // A file that this program may not read, as any other that makes no model; PERMISSION_DENIED would be of the caller.
  if (absl::IsPermissionDenied(status)) return ToGrpcStatus(absl::InvalidArgumentError(status.message()));
  if (!absl::IsFailedPrecondition(status) && !absl::IsUnauthenticated(status)) return ToGrpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      BoundedMessage({status.message().data(), status.message().size()}));
}

// For a log line: names and messages come from outside.
std::string Printable(absl::string_view text) {
  std::string line = BoundedMessage({text.data(), text.size()});
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return line;
}

absl::Status CheckToken(const AdminEnvironment& environment, const grpc::CallbackServerContext& context) {
  if (environment.token.empty()) return absl::OkStatus();
  constexpr std::string_view kScheme = "Bearer ";
  const auto [first, last] = context.client_metadata().equal_range("authorization");
  for (auto entry = first; entry != last; ++entry) {
    std::string_view given(entry->second.data(), entry->second.size());
    if (given.substr(0, kScheme.size()) != kScheme) continue;
    given.remove_prefix(kScheme.size());
    if (SameToken(given, environment.token)) return absl::OkStatus();
  }
  return absl::UnauthenticatedError(
      "the call needs the metadata 'authorization: Bearer TOKEN' with this server's token");
}

// One call: refused at once, or answered by the worker. Owns itself; ends in OnDone, which comes after Finish only, so
// that it outlives its operation whatever the client does.
class AdminReactor final : public grpc::ServerUnaryReactor {
 public:
  AdminReactor(const AdminEnvironment& environment, RpcMethod method, const grpc::CallbackServerContext& context,
               grpc::ByteBuffer* response)
      : environment_(environment),
        method_(method),
        peer_(Printable(context.peer())),
        response_(response),
        started_(environment.clock->Now()) {
    environment_.observer->OnRpcStarted(method_);
  }

  // What the operation answers, or why it could not.
  using Work = absl::AnyInvocable<absl::StatusOr<grpc::ByteBuffer>() &&>;

  // `what` names the operation in the log.
  void Start(const std::string& what, Work work) {
    what_ = what;
    environment_.log(absl::StrCat("admin: ", peer_, " asks to ", what_));
    absl::Status status = environment_.worker->Submit(
        [this, work = std::move(work)](const absl::Status& refusal) mutable { Run(std::move(work), refusal); });
    if (!status.ok()) End(status);
  }

  void Refuse(const absl::Status& status) {
    if (absl::IsUnauthenticated(status)) {
      environment_.errors->Report(method_, absl::UnauthenticatedError(absl::StrCat("no valid token from ", peer_)));
    } else {
      environment_.log(absl::StrCat("admin: ", peer_, " is refused: ", Printable(status.message())));
    }
    FinishWith(status);
  }

  void OnDone() override {
    environment_.observer->OnRpcFinished(method_, static_cast<absl::StatusCode>(code_),
                                         environment_.clock->Now() - started_);
    delete this;
  }

 private:
  void Run(Work work, const absl::Status& refusal) {
    if (!refusal.ok()) return End(refusal);
    absl::Status status;
    try {
      absl::StatusOr<grpc::ByteBuffer> answer = std::move(work)();
      status = answer.status();
      if (status.ok()) *response_ = *std::move(answer);
    } catch (const std::exception& error) {
      status = absl::InternalError(absl::StrCat("the operation failed: ", error.what()));
    }
    End(status);
  }

  void End(const absl::Status& status) {
    const std::string result = status.ok() ? "done" : Printable(status.ToString());
    environment_.log(absl::StrFormat("admin: %s asked to %s: %s after %.2f s", peer_, what_, result,
                                     ToSeconds(environment_.clock->Now() - started_)));
    FinishWith(status);
  }

  void FinishWith(const absl::Status& status) {
    grpc::Status wire = ToAdminStatus(status);
    code_ = wire.error_code();
    Finish(std::move(wire));
  }

  const AdminEnvironment& environment_;
  const RpcMethod method_;
  const std::string peer_;
  grpc::ByteBuffer* const response_;  // gRPC's, sent by Finish
  const TimePoint started_;
  std::string what_;
  grpc::StatusCode code_ = grpc::StatusCode::OK;  // written before Finish, read in OnDone
};

absl::StatusOr<ModelOptions> ReadEntry(const std::string& config, const std::string& folder) {
  if (config.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("config has ", config.size(), " bytes, the limit is ", kMaxConfigBytes));
  }
  absl::StatusOr<ModelOptions> model = ParseModel(config, "config", folder);
  if (!model.ok()) return model.status();
  if (absl::Status status = Validate(*model); !status.ok()) return status;
  return model;
}

}  // namespace

bool SameToken(std::string_view given, std::string_view expected) {
  // volatile: the compiler must not see that the result is known after the first difference.
  volatile size_t difference = given.size() ^ expected.size();
  for (size_t i = 0; i < given.size(); ++i) {
    difference = difference | static_cast<size_t>(static_cast<uint8_t>(given[i] ^ expected[i % expected.size()]));
  }
  return difference == 0;
}

grpc::ServerUnaryReactor* AdminService::LoadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  auto* const reactor = new AdminReactor(environment_, RpcMethod::kLoadModel, *context, response);
  const auto refuse = [reactor](const absl::Status& status) {
    reactor->Refuse(status);
    return reactor;
  };
  if (absl::Status status = CheckToken(environment_, *context); !status.ok()) return refuse(status);
  const auto message = ParseMessage<v1::LoadModelRequest>(Consume(request));
  if (!message.ok()) return refuse(message.status());
  absl::StatusOr<ModelOptions> entry = ReadEntry((*message)->config(), environment_.config_folder);
  if (!entry.ok()) return refuse(entry.status());
  const std::string what = absl::StrCat("load model '", Printable(entry->name), "'");
  reactor->Start(what,
                 [engine = environment_.engine, models = environment_.models,
                  options = *std::move(entry)]() -> absl::StatusOr<grpc::ByteBuffer> {
                   const absl::StatusOr<ModelInfo> info = engine->LoadModel(options);
                   if (!info.ok()) return info.status();
                   models->Refresh();
                   v1::Model answer;
                   ToWire(*info, &answer);
                   return SerializeMessage(answer);
                 });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::UnloadModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto* const reactor = new AdminReactor(environment_, RpcMethod::kUnloadModel, *context, response);
  const auto refuse = [reactor](const absl::Status& status) {
    reactor->Refuse(status);
    return reactor;
  };
  if (absl::Status status = CheckToken(environment_, *context); !status.ok()) return refuse(status);
  const auto message = ParseMessage<v1::UnloadModelRequest>(Consume(request));
  if (!message.ok()) return refuse(message.status());
  const std::string& name = (*message)->name();
  // The engine takes an empty name for the default model.
  if (name.empty()) return refuse(absl::InvalidArgumentError("name is empty: which model?"));
  const uint32_t millis = (*message)->has_timeout_millis() ? (*message)->timeout_millis() : kDefaultUnloadMillis;
  if (millis > kMaxUnloadMillis) {
    return refuse(
        absl::InvalidArgumentError(absl::StrCat("timeout_millis is ", millis, ", the limit is ", kMaxUnloadMillis)));
  }
  reactor->Start(
      absl::StrCat("unload model '", Printable(name), "'"),
      [engine = environment_.engine, models = environment_.models, name, millis]() -> absl::StatusOr<grpc::ByteBuffer> {
        absl::Status status =
            engine->UnloadModel(name, std::chrono::milliseconds(millis), [models] { models->Refresh(); });
        if (!status.ok()) return status;
        return SerializeMessage(v1::UnloadModelResponse());
      });
  return reactor;
}

}  // namespace tributary
