// Names of the engine's enumerations, as they stand in metrics labels and messages.
#include "engine/api/observer.h"
#include "engine/api/types.h"

namespace tributary {

std::string_view ModalityName(Modality modality) {
  static constexpr std::array<std::string_view, kModalityCount> kNames = {"text", "image", "fusion"};
  return kNames[static_cast<size_t>(modality)];
}

std::string_view RejectReasonName(RejectReason reason) {
  static constexpr std::array<std::string_view, kRejectReasonCount> kNames = {"items", "bytes", "modality_items",
                                                                              "draining"};
  return kNames[static_cast<size_t>(reason)];
}

std::string_view DropReasonName(DropReason reason) {
  static constexpr std::array<std::string_view, kDropReasonCount> kNames = {"expired", "too_late", "cancelled",
                                                                            "shutdown"};
  return kNames[static_cast<size_t>(reason)];
}

std::string_view IdleCauseName(IdleCause cause) {
  static constexpr std::array<std::string_view, kIdleCauseCount> kNames = {"no_work", "preparing", "scheduling",
                                                                           "staging"};
  return kNames[static_cast<size_t>(cause)];
}

}  // namespace tributary
