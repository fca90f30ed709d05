// A request whose way was cut short, as where memory ran out, is answered all the same.
#include "engine/pipeline/request_state.h"

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/engine/pipeline/pipeline_test_support.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// Loses what it is given, or throws.
class BadHost final : public RequestHost {
 public:
  explicit BadHost(bool throws) : throws_(throws) {}
  void Enqueue(WorkItemPtr /*item*/) override { Fail(); }
  void OnAllResults(std::shared_ptr<RequestState> /*state*/) override { Fail(); }

 private:
  void Fail() const {
    if (throws_) throw std::runtime_error("no memory");
  }
  const bool throws_;
};

TEST_CASE("A request that everyone has let go of is answered with an error for each input, once") {
  const bool throws = GENERATE(false, true);
  const size_t answered_items = GENERATE(0u, 1u, 2u);
  CAPTURE(throws, answered_items);
  SteadyClock clock;
  CountingObserver observer;
  BadHost host(throws);
  Answer answer;
  auto route = std::make_shared<const ModelRoute>();
  auto state = std::make_shared<RequestState>(TextRequest({"a", "b"}), answer.Callback(), Permit(), route, &host,
                                              &clock, &observer);
  std::vector<WorkItemPtr> items;
  for (size_t i = 0; i < answered_items; ++i) items.push_back(state->NewItem(i, Modality::kText));
  state.reset();
  for (WorkItemPtr& item : items) item->Complete({1.0F});  // the last one to a host that does not pass it on
  items.clear();

  const EmbedResponse& response = answer.Wait();

  CHECK(answer.completions() == 1);
  REQUIRE(response.results.size() == 2);
  for (const EmbedResult& result : response.results) {
    CHECK(result.status.code() == absl::StatusCode::kInternal);
    CHECK(result.text.empty());
  }
}

}  // namespace
}  // namespace tributary
