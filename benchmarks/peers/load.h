// What the load generator of benchmarks/peers is made of: calls of any server as ready bytes, sent at given times, and
// one record a call. It knows nothing of the servers' contracts: the harness writes the bytes, so that every server is
// driven by the same code and none pays for a richer client.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tributary::peers {

using SteadyTime = std::chrono::steady_clock::time_point;

// One call to make: when, counted from the start of the run, and the index of its bytes.
struct PlannedCall {
  uint64_t due_nanos;
  uint64_t payload;
};

// One call made, as it is written to the file the harness reads: little endian, no padding between the fields.
// `code`: 0 an answer that counts; else the HTTP status, 1000 + the gRPC code, or one of the codes below.
struct CallRecord {
  uint64_t payload;
  int64_t due_nanos;
  int64_t sent_nanos;  // -1: not sent
  int64_t done_nanos;  // -1: no answer until the run was given up
  int32_t code;
  uint32_t answer_bytes;
};
static_assert(sizeof(CallRecord) == 40);

inline constexpr int32_t kUnanswered = 1;   // given up at the end
inline constexpr int32_t kNotSent = 2;      // too many calls were open
inline constexpr int32_t kConnection = 3;   // refused, or broken before the answer
inline constexpr int32_t kShortAnswer = 4;  // an answer without errors, but too short to hold a vector

struct LoadOptions {
  std::string address;                // HOST:PORT
  std::string path;                   // gRPC: "/package.Service/Method"; HTTP: "/embeddings"
  std::vector<std::string> payloads;  // gRPC: messages; HTTP: bodies
  std::vector<PlannedCall> calls;  // open loop: sorted by time. Closed loop: the order of the payloads, times ignored
  size_t closed = 0;               // calls always open; 0: open loop
  double closed_seconds = 0;
  double deadline_seconds = 0;  // of each gRPC call; 0: none
  double give_up_seconds = 10;  // after the last call was due
  size_t connections = 4;       // gRPC: channels. HTTP: the most connections, one call each at a time
  uint32_t min_answer_bytes = 0;
};

// One running load, made by the sender of a protocol. All members are called by one thread but where said otherwise.
class Sender {
 public:
  // Called from any thread, once a call.
  using Done = std::function<void(size_t call, int32_t code, uint32_t answer_bytes)>;

  virtual ~Sender() = default;
  // Sends without waiting for the answer.
  virtual void Send(size_t call, uint64_t payload) = 0;
  // Answers are handed to Done until `until`, or until one came if `wake_on_answer`.
  virtual void Wait(SteadyTime until, bool wake_on_answer) = 0;
};

std::unique_ptr<Sender> MakeGrpcSender(const LoadOptions& options, Sender::Done done);
std::unique_ptr<Sender> MakeHttpSender(const LoadOptions& options, Sender::Done done);

}  // namespace tributary::peers
