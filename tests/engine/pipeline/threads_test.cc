// Which thread does what: the table of engine/README.md.
#include "tests/engine/pipeline/pipeline_test_support.h"
#include "tests/support/thread_recorder.h"

namespace tributary {
namespace {

TEST_CASE("Tokenising and decoding run on preparation threads, packing on lanes, completions on threads of their own") {
  SteadyClock clock;
  CountingObserver observer;
  EngineOptions options;
  options.prepare.threads = 1;
  ThreadRecorder threads;
  FakeParts fakes = MakeFakePipelineParts(&clock);
  RecordThreads(fakes.parts, &threads);
  auto engine = CreatePipeline(options, std::move(fakes.parts), &clock, &observer);
  REQUIRE(engine.ok());

  // Answers of every kind, and answers that come early: from preparation, and from the lane that found a fault.
  const std::string refused(fake::kRefused);
  const std::string fault(fake::kRunFails);
  for (EmbedRequest& request :
       std::array{TextRequest({"text"}), ImageRequest({"image"}), MakeRequest(RequestKind::kPair, {{"text", "image"}}),
                  TextRequest({refused}), ImageRequest({refused}), TextRequest({fault})}) {
    Answer answer;
    const absl::Status submitted =
        (*engine)->Submit(std::move(request), [&, done = answer.Callback()](EmbedResponse response) mutable {
          threads.Record("complete");
          std::move(done)(std::move(response));
        });
    REQUIRE(submitted.ok());
    answer.Wait();
  }

  using Names = std::set<std::string>;
  CHECK(threads.ThreadsOf("tokenise") == Names{"trib-token-0"});
  CHECK(threads.ThreadsOf("decode") == Names{"trib-decode-0"});
  CHECK(threads.ThreadsOf("stage") == Names{"trib-lane-0"});
  CHECK(threads.ThreadsOf("run") == Names{"trib-cpu-0"});
  CHECK(threads.ThreadsOf("complete") == Names{"trib-done-0"});
}

}  // namespace
}  // namespace tributary
