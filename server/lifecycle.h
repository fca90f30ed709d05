// How the process ends: stop signals, and the drain that answers what was accepted.
#pragma once

#include "engine/api/engine.h"
#include "server/call_tracker.h"
#include "server/grpc_server.h"

namespace tributary {

// Keeps SIGTERM and SIGINT from every thread started after it, and ignores SIGPIPE. Call before the first thread.
void BlockStopSignals();

// Sleeps until SIGTERM or SIGINT and returns it. From then on a second one ends the process at once.
int WaitForStopSignal();

// Counts of calls and stream inputs.
struct DrainResult {
  size_t unanswered = 0;  // by the engine, after the time-out
  size_t unsent = 0;      // answered, but their clients did not read: cut
};

// Health NOT_SERVING, new work UNAVAILABLE, then waits until the engine has answered everything accepted, at most
// `timeout`, gives the answers 2 s to leave and shuts the server down. What never ends (a health Watch, an idle
// EmbedStream, a client that does not read) is cut, not waited for. Where something is unanswered the server is still
// up, because closing it would wait for that.
DrainResult Drain(GrpcServer& server, Engine& engine, CallTracker& calls, Duration timeout);

}  // namespace tributary
