#include "server/error_log.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

namespace tributary {
namespace {

TEST_CASE("at most the given number of errors is logged in a second, and the next line says how many were left out") {
  FakeClock clock;
  std::vector<std::string> lines;
  ErrorLog log(&clock, 2, [&](const std::string& line) { lines.push_back(line); });
  for (int i = 0; i < 5; ++i) log.Report(RpcMethod::kEmbedText, absl::InternalError("device"));
  CHECK(lines == std::vector<std::string>{"EmbedText failed: device", "EmbedText failed: device"});
  clock.Advance(std::chrono::seconds(1));
  log.Report(RpcMethod::kEmbedPair, absl::InternalError("device"));
  CHECK(lines.back() == "EmbedPair failed: device (3 more were not logged)");
  log.Report(RpcMethod::kEmbedPair, absl::InternalError("device"));
  CHECK(lines.back() == "EmbedPair failed: device");
}

TEST_CASE("a limit of 0 logs nothing") {
  FakeClock clock;
  size_t lines = 0;
  ErrorLog log(&clock, 0, [&](const std::string&) { ++lines; });
  log.Report(RpcMethod::kEmbedText, absl::InternalError("x"));
  CHECK(lines == 0);
}

}  // namespace
}  // namespace tributary
