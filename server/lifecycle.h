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

// Health NOT_SERVING, new work UNAVAILABLE, then waits until everything accepted is answered, at most `timeout`, and
// shuts the server down. What never ends (a health Watch, an idle EmbedStream) is cut, not waited for. Returns the
// number of calls and stream inputs still unanswered after `timeout`; not 0: the server is still up, because closing it
// would wait for them.
size_t Drain(GrpcServer& server, Engine& engine, CallTracker& calls, Duration timeout);

}  // namespace tributary
