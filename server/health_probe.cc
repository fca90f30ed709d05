#include "server/health_probe.h"

#include <future>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace tributary {

absl::Status ProbeHealth(const std::string& address, std::chrono::milliseconds timeout) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  // grpc.health.v1's messages are two bytes at most, and the library does not install their header: an empty request
  // asks for the whole server, and field 1 of the answer is 1 for SERVING.
  grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> finished;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&finished](grpc::Status status) { finished.set_value(std::move(status)); });
  const grpc::Status status = finished.get_future().get();
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat(address, ": ", status.error_message()));
  }
  grpc::Slice answer;
  if (!response.DumpToSingleSlice(&answer).ok() || answer.size() != 2 || answer.begin()[0] != 0x08 ||
      answer.begin()[1] != 0x01) {
    return absl::UnavailableError(absl::StrCat(address, ": not serving"));
  }
  return absl::OkStatus();
}

}  // namespace tributary
