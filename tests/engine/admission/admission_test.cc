#include "engine/admission/admission.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

AdmissionOptions SmallLimits() {
  AdmissionOptions options;
  options.max_items = 10;
  options.max_bytes = 100;
  options.max_modality_items = {8, 4, 4};
  return options;
}

std::string MessageOf(const absl::StatusOr<Permit>& refused) { return std::string(refused.status().message()); }

void RequireEmpty(const Admission& admission) {
  REQUIRE(admission.requests_in_flight() == 0);
  REQUIRE(admission.items_in_flight() == 0);
  REQUIRE(admission.bytes_in_flight() == 0);
  for (Modality modality : kAllModalities) REQUIRE(admission.modality_items_in_flight(modality) == 0);
}

TEST_CASE("a permit holds its share of every limit and gives all of it back") {
  Admission admission(SmallLimits());
  {
    absl::StatusOr<Permit> permit = admission.TryAdmit(RequestKind::kPair, {3, 2, 2}, 60);
    REQUIRE(permit.ok());
    REQUIRE(admission.requests_in_flight() == 1);
    REQUIRE(admission.items_in_flight() == 7);
    REQUIRE(admission.bytes_in_flight() == 60);
    REQUIRE(admission.modality_items_in_flight(Modality::kText) == 3);
    REQUIRE(admission.modality_items_in_flight(Modality::kImage) == 2);
    REQUIRE(admission.modality_items_in_flight(Modality::kFusion) == 2);
  }
  RequireEmpty(admission);
}

TEST_CASE("a moved permit gives back once, and an assigned one gives back what it held before") {
  Admission admission(SmallLimits());
  Permit first = *admission.TryAdmit(RequestKind::kText, {3, 0, 0}, 30);
  Permit second = *admission.TryAdmit(RequestKind::kText, {2, 0, 0}, 20);
  Permit moved = std::move(first);
  REQUIRE(admission.items_in_flight() == 5);
  moved = std::move(second);
  REQUIRE(admission.items_in_flight() == 2);
  REQUIRE(admission.bytes_in_flight() == 20);
  moved.GiveBack();
  moved.GiveBack();
  RequireEmpty(admission);
}

TEST_CASE("limits are reached exactly, and the refusal names the value and the limit") {
  Admission admission(SmallLimits());
  RejectReason reason{};

  SECTION("items of one modality") {
    Permit permit = *admission.TryAdmit(RequestKind::kText, {6, 0, 0}, 1);
    absl::StatusOr<Permit> refused = admission.TryAdmit(RequestKind::kText, {3, 0, 0}, 1, &reason);
    REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
    REQUIRE(reason == RejectReason::kModalityItems);
    REQUIRE(MessageOf(refused) ==
            "text call refused: it needs 3 text items, 6 of admission.max_modality_items.text = 8 are in flight; "
            "retry later");
    REQUIRE(admission.items_in_flight() == 6);
    REQUIRE(admission.TryAdmit(RequestKind::kText, {2, 0, 0}, 1).ok());
  }
  SECTION("items of all modalities") {
    Permit permit = *admission.TryAdmit(RequestKind::kText, {8, 0, 0}, 1);
    absl::StatusOr<Permit> refused = admission.TryAdmit(RequestKind::kImage, {0, 3, 0}, 1, &reason);
    REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
    REQUIRE(reason == RejectReason::kItems);
    REQUIRE(MessageOf(refused) ==
            "image call refused: it needs 3 items, 8 of admission.max_items = 10 are in flight; retry later");
    REQUIRE(admission.modality_items_in_flight(Modality::kImage) == 0);
    REQUIRE(admission.TryAdmit(RequestKind::kImage, {0, 2, 0}, 1).ok());
  }
  SECTION("bytes") {
    Permit permit = *admission.TryAdmit(RequestKind::kImage, {0, 1, 0}, 70);
    absl::StatusOr<Permit> refused = admission.TryAdmit(RequestKind::kPair, {1, 1, 1}, 31, &reason);
    REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
    REQUIRE(reason == RejectReason::kBytes);
    REQUIRE(MessageOf(refused) ==
            "pair call refused: it needs 31 bytes, 70 of admission.max_bytes = 100 are in flight; retry later");
    REQUIRE(admission.items_in_flight() == 1);
    REQUIRE(admission.modality_items_in_flight(Modality::kFusion) == 0);
    REQUIRE(admission.TryAdmit(RequestKind::kPair, {1, 1, 1}, 30).ok());
  }
  SECTION("a call that no free house could take is told to be smaller, not to retry") {
    absl::StatusOr<Permit> refused = admission.TryAdmit(RequestKind::kImage, {0, 5, 0}, 1, &reason);
    REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
    REQUIRE(reason == RejectReason::kModalityItems);
    REQUIRE(MessageOf(refused) ==
            "image call refused: it needs 5 image items, more than admission.max_modality_items.image = 4 allows at "
            "all; send it in smaller calls");
    RequireEmpty(admission);
  }
}

TEST_CASE("draining refuses new calls as unavailable and waits for those in flight") {
  Admission admission(SmallLimits());
  std::optional<Permit> permit = *admission.TryAdmit(RequestKind::kText, {1, 0, 0}, 10);
  REQUIRE_FALSE(admission.draining());
  admission.StopAdmitting();
  admission.StopAdmitting();
  REQUIRE(admission.draining());

  RejectReason reason{};
  REQUIRE(admission.TryAdmit(RequestKind::kText, {1, 0, 0}, 1, &reason).status().code() ==
          absl::StatusCode::kUnavailable);
  REQUIRE(reason == RejectReason::kDraining);
  REQUIRE(admission.requests_in_flight() == 1);

  REQUIRE_FALSE(admission.WaitUntilIdle(Duration(0)));
  std::jthread last([&] { permit.reset(); });
  REQUIRE(admission.WaitUntilIdle(Duration::max()));
  RequireEmpty(admission);
}

TEST_CASE("several threads may wait for the last permit at once") {
  Admission admission(SmallLimits());
  std::optional<Permit> permit = *admission.TryAdmit(RequestKind::kText, {1, 0, 0}, 10);
  std::atomic<int> idle{0};
  {
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 4; ++i) waiters.emplace_back([&] { idle += admission.WaitUntilIdle(Duration::max()) ? 1 : 0; });
    permit.reset();
  }
  REQUIRE(idle == 4);
}

TEST_CASE(
    "many threads in and out never pass a limit, leave nothing behind, and none gets in once idle while draining") {
  const AdmissionOptions limits = SmallLimits();
  Admission admission(limits);
  std::atomic<bool> over{false};
  std::atomic<size_t> admitted{0};
  std::atomic<bool> saw_idle{false};
  std::atomic<bool> admitted_after_idle{false};
  {
    std::vector<std::jthread> callers;
    for (size_t t = 0; t < 8; ++t) {
      callers.emplace_back([&, t] {
        for (;;) {
          const bool was_idle = saw_idle.load();
          absl::StatusOr<Permit> permit = admission.TryAdmit(RequestKind::kPair, {1 + t % 3, t % 2, t % 2}, 10 + t);
          if (admission.items_in_flight() > limits.max_items || admission.bytes_in_flight() > limits.max_bytes ||
              admission.modality_items_in_flight(Modality::kText) > limits.max_modality_items[0]) {
            over = true;
          }
          if (permit.ok()) {
            admitted.fetch_add(1);
            admitted.notify_all();
            if (was_idle) admitted_after_idle = true;
          } else if (permit.status().code() == absl::StatusCode::kUnavailable && was_idle) {
            return;
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    for (size_t seen = 0; seen < 20000; seen = admitted.load()) admitted.wait(seen);
    admission.StopAdmitting();
    REQUIRE(admission.WaitUntilIdle(Duration::max()));
    saw_idle = true;
  }
  REQUIRE_FALSE(over);
  REQUIRE_FALSE(admitted_after_idle);
  RequireEmpty(admission);
}

}  // namespace
}  // namespace tributary
