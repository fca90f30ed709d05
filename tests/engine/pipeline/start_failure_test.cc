// The engine where the system refuses a thread: a status, nothing left behind. A program of its own: it puts itself
// between the C++ library and pthread_create.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "engine/pipeline/pipeline.h"
#include "tests/support/catch.h"
#include "tests/support/fake_model.h"

namespace {

// Threads that are still granted; below 0: all.
std::atomic<int> threads_granted{-1};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  const int granted = threads_granted.load();
  if (granted == 0) return EAGAIN;
  if (granted > 0) threads_granted.store(granted - 1);
  return real(thread, attributes, body, argument);
}

namespace tributary {
namespace {

absl::Status CreateWithThreads(int granted) {
  SteadyClock clock;
  Observer observer;
  EngineOptions options;
  options.prepare.threads = 2;
  options.completion_threads = 2;
  FakeParts fakes = MakeFakePipelineParts(&clock, {}, /*lane_count=*/2);
  threads_granted = granted;
  const absl::Status status = CreatePipeline(options, std::move(fakes.parts), &clock, &observer).status();
  threads_granted = -1;
  return status;
}

TEST_CASE("Whichever of its threads the engine is refused, it is not made, says why, and ends those it had") {
  int granted = 0;
  for (absl::Status status = CreateWithThreads(granted); !status.ok(); status = CreateWithThreads(++granted)) {
    CAPTURE(granted);
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK_THAT(std::string(status.message()), ContainsSubstring("the engine cannot start: "));
  }
  CHECK(granted == 11);  // two lanes of two threads, completion 2, scheduler 1, tokenising 2, decoding 2
}

}  // namespace
}  // namespace tributary
