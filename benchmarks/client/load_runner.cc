#include "benchmarks/client/load_runner.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tributary::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kHopelessLag = 2s;  // sent this late: the client cannot make this rate
constexpr uint64_t kHopelessFailures = 1000;

double Seconds(Nanos duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

RunSummary LoadRunner::Run(const std::function<void(const Progress&)>& progress) {
  summary_.offered_rate = options_.rate;
  summary_.window_seconds = Seconds(options_.duration);
  start_ = Clock::now();
  window_start_ = start_ + options_.warmup;
  end_ = window_start_ + options_.duration;
  last_answer_ = window_start_;
  {
    std::jthread sender([this] { options_.rate > 0 ? SendOpenLoop() : SendClosedLoop(); });
    std::unique_lock lock(mutex_);
    auto give_up = Clock::time_point::max();
    auto next_report = start_ + 1s;
    while (sending_ || in_flight_ > 0) {
      if (!sending_) give_up = std::min(give_up, Clock::now() + options_.drain);
      if (Clock::now() >= give_up) break;
      over_.wait_until(lock, std::min(next_report, give_up));
      if (Clock::now() < next_report) continue;
      next_report = Clock::now() + 1s;
      const Progress current = Current();
      lock.unlock();
      progress(current);
      lock.lock();
    }
    summary_.given_up_calls = in_flight_;
  }
  transport_.Close();
  std::lock_guard lock(mutex_);
  summary_.elapsed_seconds = std::max(summary_.window_seconds, Seconds(last_answer_ - window_start_));
  summary_.not_held = summary_.WhyNotHeld();
  summary_.load = LoadTimeline(std::move(timeline_), summary_.elapsed_seconds);
  return summary_;
}

void LoadRunner::SendOpenLoop() {
  Random random(options_.seed);
  Arrivals arrivals(options_.pattern, options_.rate, options_.seed ^ 0x5851F42D4C957F2D);
  while (true) {
    const Clock::time_point intended = start_ + arrivals.Next();
    if (intended >= end_) break;
    std::this_thread::sleep_until(intended);
    const Nanos lag = Clock::now() - intended;
    bool room = true;
    {
      std::lock_guard lock(mutex_);
      if (!sending_) return;
      room = in_flight_ < options_.max_in_flight;
      Schedule(intended, lag, room);
      if (room) summary_.max_in_flight = std::max<uint64_t>(summary_.max_in_flight, ++in_flight_);
    }
    if (room) SendOne(random, intended);
    if (lag > kHopelessLag) {
      std::lock_guard lock(mutex_);
      StopSending("calls were sent over 2 s late: this client cannot make the rate");
      return;
    }
  }
  std::lock_guard lock(mutex_);
  StopSending("");
}

// Answers free a slot; this thread sends again, so a call never runs in the reaction of another.
void LoadRunner::SendClosedLoop() {
  Random random(options_.seed);
  std::unique_lock lock(mutex_);
  free_slots_ = options_.concurrency;
  while (sending_) {
    slot_free_.wait_until(lock, end_, [&] { return free_slots_ > 0 || !sending_; });
    const Clock::time_point now = Clock::now();
    if (now >= end_) StopSending("");
    if (!sending_) return;
    if (free_slots_ == 0) continue;
    --free_slots_;
    summary_.max_in_flight = std::max<uint64_t>(summary_.max_in_flight, ++in_flight_);
    Schedule(now, 0ns, true);  // a closed loop means to send when it can
    lock.unlock();
    SendOne(random, now);
    lock.lock();
  }
}

void LoadRunner::Schedule(Clock::time_point intended, Nanos lag, bool room) {
  if (!Measured(intended)) return;
  ++summary_.scheduled_calls;
  summary_.send_lag.Add(lag);
  LoadBin& bin = timeline_.At(InWindow(intended));
  ++bin.scheduled;
  if (room) return;
  ++summary_.missed_calls;
  ++bin.missed;
}

void LoadRunner::SendOne(Random& random, Clock::time_point intended) {
  const Kind kind = options_.mix.Draw(random);
  transport_.Send(kind, random() >> 1,
                  [this, kind, intended](const Outcome& outcome) { OnAnswer(kind, intended, outcome); });
}

void LoadRunner::OnAnswer(Kind kind, Clock::time_point intended, const Outcome& outcome) {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex_);
  --in_flight_;
  ++free_slots_;
  if (Measured(intended)) {
    summary_.kinds[static_cast<size_t>(kind)].Add(outcome, now - intended, options_.slo);
    timeline_.At(InWindow(now)).answered.Add(outcome, now - intended, options_.slo);
    last_answer_ = std::max(last_answer_, now);
  }
  failed_in_a_row_ = outcome.ok_inputs > 0 ? 0 : failed_in_a_row_ + 1;
  if (failed_in_a_row_ == kHopelessFailures && sending_) {
    StopSending("1000 calls in a row failed with " +
                (outcome.errors.empty() ? std::string("no answer") : outcome.errors.begin()->first));
  }
  slot_free_.notify_one();
  if (in_flight_ == 0 && !sending_) over_.notify_one();
}

Progress LoadRunner::Current() const {
  const KindCounts total = summary_.Total();
  const Clock::time_point now = Clock::now();
  return {.seconds = Seconds(now - start_),
          .warming_up = now < window_start_,
          .answered = total.calls,
          .error_inputs = total.error_inputs(),
          .missed = summary_.missed_calls,
          .in_flight = in_flight_,
          .p50_ms = total.latency.PercentileMillis(0.5),
          .p99_ms = total.latency.PercentileMillis(0.99)};
}

void LoadRunner::StopSending(std::string not_held) {
  sending_ = false;
  if (summary_.not_held.empty()) summary_.not_held = std::move(not_held);
  slot_free_.notify_one();
  over_.notify_one();
}

}  // namespace tributary::bench
