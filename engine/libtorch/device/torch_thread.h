// How a thread that calls LibTorch must be set up. Torch-free, for lanes' thread hooks, tests and benchmarks.
#pragma once

namespace tributary {

// The calling thread runs LibTorch's operators by itself, without a thread team (facts: a team on a busy machine took
// one batch from 3.6 to 392 ms). Per thread: call it on every thread that runs or warms programs, because oneDNN keeps
// a primitive per shape and number of threads.
void InitTorchThread();

}  // namespace tributary
