// How a call reaches the server: unary RPCs, or one stream with many inputs in flight. Asynchronous, no thread a call.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "benchmarks/client/load_spec.h"
#include "benchmarks/client/requests.h"

namespace tributary::bench {

// What one call came to.
struct Outcome {
  size_t ok_inputs = 0;
  uint64_t tokens = 0;
  std::map<std::string, uint64_t> errors;  // name of the code -> inputs; a failed call fails all of its inputs
};
using Done = std::function<void(const Outcome&)>;

// Thread-safety: Send from any thread, also from within a `done`.
class Transport {
 public:
  virtual ~Transport() = default;
  // Returns at once; `done` runs exactly once, on a thread of gRPC. `index` chooses among the prepared requests.
  virtual void Send(Kind kind, size_t index, Done done) = 0;
  // No Send any more: gives up what is still in flight (its `done` runs with CANCELLED) and waits until nothing is.
  virtual void Close() = 0;
};

// `requests` must outlive the transport. deadline 0: none.
std::unique_ptr<Transport> MakeUnaryTransport(std::shared_ptr<grpc::Channel> channel, const Requests& requests,
                                              std::chrono::milliseconds deadline);
// Every request counts its first input only: a message of EmbedStream has one.
std::unique_ptr<Transport> MakeStreamTransport(std::shared_ptr<grpc::Channel> channel, const Requests& requests);

std::string CodeName(int code);  // "RESOURCE_EXHAUSTED"

}  // namespace tributary::bench
