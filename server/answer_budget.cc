#include "server/answer_budget.h"

#include "absl/strings/str_cat.h"
#include "server/metric_sheet.h"

namespace tributary {

absl::Status AnswerBudget::Reserve(size_t bytes) {
  size_t before = reserved();
  do {
    if (before >= max_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("answers of up to ", before,
                                                       " bytes are not sent yet, the limit is ", max_bytes_,
                                                       " (server.max_unsent_answer_bytes)"));
    }
  } while (!reserved_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return absl::OkStatus();
}

std::vector<prometheus::MetricFamily> AnswerBudget::Collect() const {
  MetricSheet sheet;
  sheet.Set(MetricId::kRpcUnsentAnswerBytes, {}, static_cast<double>(reserved()));
  return sheet.Take();
}

}  // namespace tributary
