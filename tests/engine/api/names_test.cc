#include <set>
#include <string_view>

#include "engine/api/observer.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

template <class Enum>
std::set<std::string_view> Names(std::string_view (*name_of)(Enum), size_t count) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < count; ++i) names.insert(name_of(static_cast<Enum>(i)));
  return names;
}

TEST_CASE("every value of the engine's enumerations has a name of its own, as the metrics show it") {
  using Set = std::set<std::string_view>;
  REQUIRE(Names(ModalityName, kModalityCount) == Set{"text", "image", "fusion"});
  REQUIRE(Names(RejectReasonName, kRejectReasonCount) == Set{"items", "bytes", "modality_items", "draining"});
  REQUIRE(Names(DropReasonName, kDropReasonCount) == Set{"expired", "too_late", "cancelled", "shutdown"});
  REQUIRE(Names(IdleCauseName, kIdleCauseCount) == Set{"no_work", "preparing", "scheduling", "staging"});
  REQUIRE(ModalityName(Modality::kFusion) == "fusion");
  REQUIRE(RejectReasonName(RejectReason::kDraining) == "draining");
}

}  // namespace
}  // namespace tributary
