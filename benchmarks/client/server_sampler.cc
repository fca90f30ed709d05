#include "benchmarks/client/server_sampler.h"

#include <utility>

#include "benchmarks/client/server_metrics.h"

namespace tributary::bench {

ServerSampler::ServerSampler(std::string target, Clock::time_point origin)
    : target_(std::move(target)), origin_(origin), thread_([this](const std::stop_token& stop) {
        // At whole seconds of the timeline, so that a page and the one before enclose one bin; the first one at once.
        auto next = origin_ - std::chrono::ceil<std::chrono::seconds>(origin_ - Clock::now());
        Sample();
        for (bool first = true; !stop.stop_requested(); first = false) {
          while (next <= Clock::now()) next += std::chrono::seconds(1);
          std::unique_lock lock(mutex_);
          wake_.wait_until(lock, stop, next, [] { return false; });
          lock.unlock();
          // Little of a second at the end would be a bin of noise, unless it is all there is.
          if (!first && Clock::now() < next - std::chrono::milliseconds(500)) break;
          Sample();
        }
      }) {}

Timeline ServerSampler::Stop() {
  thread_.request_stop();
  thread_.join();
  return series_.Take();
}

void ServerSampler::Sample() {
  const auto samples = ReadServerMetrics(target_);
  if (!samples.ok()) return series_.AddFailure();
  series_.Add(std::chrono::duration<double>(Clock::now() - origin_).count(), *samples);
}

}  // namespace tributary::bench
