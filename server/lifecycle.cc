#include "server/lifecycle.h"

#include <pthread.h>

#include <chrono>
#include <csignal>

namespace tributary {
namespace {

// Between the last answer and cutting the connections: time for its bytes and the GOAWAY to leave the sockets.
constexpr Duration kCloseGrace = std::chrono::milliseconds(100);
// For answers that wait for their clients to read: far more than a client at work needs.
constexpr Duration kWriteGrace = std::chrono::seconds(2);

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStopSignal() {
  const sigset_t set = StopSignals();
  int signal = 0;
  sigwait(&set, &signal);
  // The default action of a second signal is to end the process.
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return signal;
}

DrainResult Drain(GrpcServer& server, Engine& engine, CallTracker& calls, Duration timeout) {
  DrainResult result;
  server.StopServing();
  engine.StopAdmitting();
  calls.Close();  // after the engine: what is not counted, it refuses
  if (!engine.WaitUntilIdle(timeout)) {
    result.unanswered = calls.open();
    if (result.unanswered > 0) return result;
  }
  if (!calls.WaitUntilNone(std::chrono::steady_clock::now() + kWriteGrace)) result.unsent = calls.open();
  server.Shutdown(kCloseGrace);
  return result;
}

}  // namespace tributary
