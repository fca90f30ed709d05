// tributary-peer-load: one run of load against one server, open or closed loop. Used by benchmarks/peers for every
// server.
//
//   tributary-peer-load KEY=VALUE...      keys: protocol (grpc, http) address path payloads calls out closed
//                                         closed_seconds deadline give_up connections min_answer_bytes
// `payloads`: a file of [u64 length, bytes]...; `calls`: a file of [u64 nanoseconds, u64 payload]...; `out`: a file
// that becomes an array of CallRecord (load.h). Prints one JSON object: {"cpu_seconds":...,"elapsed_seconds":...}.
#include "benchmarks/peers/load.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tributary::peers {
namespace {

using std::chrono::steady_clock;

// Below this the sleep would return late; the rest is spent looking at the clock.
constexpr std::chrono::microseconds kSpin(50);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(absl::StrCat("cannot read ", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> ReadPayloads(const std::string& path) {
  const std::string file = ReadFile(path);
  std::vector<std::string> payloads;
  for (size_t at = 0; at < file.size();) {
    uint64_t length = 0;
    if (file.size() - at < sizeof(length)) throw std::runtime_error(absl::StrCat(path, " is cut short"));
    std::memcpy(&length, file.data() + at, sizeof(length));
    at += sizeof(length);
    if (file.size() - at < length) throw std::runtime_error(absl::StrCat(path, " is cut short"));
    payloads.push_back(file.substr(at, length));
    at += length;
  }
  return payloads;
}

std::vector<PlannedCall> ReadCalls(const std::string& path, size_t payloads) {
  const std::string file = ReadFile(path);
  std::vector<PlannedCall> calls(file.size() / sizeof(PlannedCall));
  std::memcpy(calls.data(), file.data(), calls.size() * sizeof(PlannedCall));
  if (calls.empty()) throw std::runtime_error(absl::StrCat(path, " holds no calls"));
  for (const PlannedCall& call : calls) {
    if (call.payload >= payloads) throw std::runtime_error(absl::StrCat("payload ", call.payload, " of ", payloads));
  }
  return calls;
}

// The records of a run, written by the sender's threads.
class Records {
 public:
  explicit Records(SteadyTime start) : start_(start) {}

  size_t Sent(uint64_t payload, int64_t due_nanos) {
    const std::lock_guard lock(mutex_);
    const int64_t now = Now();
    records_.push_back({payload, due_nanos < 0 ? now : due_nanos, now, -1, kUnanswered, 0});
    ++open_;
    return records_.size() - 1;
  }

  void Done(size_t call, int32_t code, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    CallRecord& record = records_[call];
    if (closed_) return;
    record.done_nanos = Now();
    record.code = code;
    record.answer_bytes = bytes;
    if (code == kNotSent) record.sent_nanos = -1;
    --open_;
  }

  size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }

  // What comes later does not count.
  std::vector<CallRecord> Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return records_;
  }

 private:
  int64_t Now() const { return std::chrono::nanoseconds(steady_clock::now() - start_).count(); }

  const SteadyTime start_;
  mutable std::mutex mutex_;
  std::vector<CallRecord> records_;
  size_t open_ = 0;
  bool closed_ = false;
};

void OpenLoop(const LoadOptions& options, SteadyTime start, Sender& sender, Records& records) {
  for (const PlannedCall& call : options.calls) {
    const SteadyTime due = start + std::chrono::nanoseconds(call.due_nanos);
    if (steady_clock::now() < due - kSpin) sender.Wait(due - kSpin, /*wake_on_answer=*/false);
    while (steady_clock::now() < due) {
    }
    sender.Send(records.Sent(call.payload, static_cast<int64_t>(call.due_nanos)), call.payload);
  }
}

void ClosedLoop(const LoadOptions& options, SteadyTime start, Sender& sender, Records& records) {
  const SteadyTime end = start + std::chrono::nanoseconds(static_cast<int64_t>(options.closed_seconds * 1e9));
  for (size_t next = 0; steady_clock::now() < end;) {
    while (records.open() < options.closed) {
      const uint64_t payload = options.calls[next++ % options.calls.size()].payload;
      sender.Send(records.Sent(payload, -1), payload);
    }
    sender.Wait(end, /*wake_on_answer=*/true);
  }
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

int Run(std::map<std::string, std::string> flags) {
  const auto number = [&flags](const std::string& key, double otherwise) {
    return flags.contains(key) ? std::stod(flags[key]) : otherwise;
  };
  LoadOptions options;
  options.address = flags["address"];
  options.path = flags["path"];
  options.payloads = ReadPayloads(flags["payloads"]);
  options.calls = ReadCalls(flags["calls"], options.payloads.size());
  options.closed = static_cast<size_t>(number("closed", 0));
  options.closed_seconds = number("closed_seconds", 0);
  options.deadline_seconds = number("deadline", 0);
  options.give_up_seconds = number("give_up", options.give_up_seconds);
  options.connections = static_cast<size_t>(number("connections", static_cast<double>(options.connections)));
  options.min_answer_bytes = static_cast<uint32_t>(number("min_answer_bytes", 0));

  std::vector<CallRecord> made;
  const auto elapsed = [begin = steady_clock::now()] {
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
  };
  const double cpu = CpuSeconds();
  {
    std::unique_ptr<Records> records;
    const Sender::Done done = [&records](size_t call, int32_t code, uint32_t bytes) {
      records->Done(call, code, bytes);
    };
    const std::unique_ptr<Sender> sender =
        flags["protocol"] == "http" ? MakeHttpSender(options, done) : MakeGrpcSender(options, done);
    const SteadyTime start = steady_clock::now();
    records = std::make_unique<Records>(start);
    options.closed > 0 ? ClosedLoop(options, start, *sender, *records) : OpenLoop(options, start, *sender, *records);
    const SteadyTime until =
        steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(options.give_up_seconds * 1e3));
    while (records->open() > 0 && steady_clock::now() < until) sender->Wait(until, /*wake_on_answer=*/true);
    made = records->Close();
    std::cout << nlohmann::json{{"cpu_seconds", CpuSeconds() - cpu}, {"elapsed_seconds", elapsed()}}.dump()
              << std::endl;
  }
  std::ofstream out(flags["out"], std::ios::binary);
  out.write(reinterpret_cast<const char*>(made.data()), static_cast<std::streamsize>(made.size() * sizeof(CallRecord)));
  return out.flush() ? 0 : 1;
}

}  // namespace
}  // namespace tributary::peers

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    flags[argument.substr(0, equals)] = equals == std::string::npos ? "" : argument.substr(equals + 1);
  }
  try {
    return tributary::peers::Run(flags);
  } catch (const std::exception& error) {
    std::cerr << "tributary-peer-load: " << error.what() << "\n";
    return 1;
  }
}
