#include "server/health_probe.h"

#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/test_server.h"

namespace tributary {
namespace {

// Far more than a busy machine needs.
constexpr std::chrono::seconds kTimeout(30);

TEST_CASE("the probe tells a serving server from one that drains and from none") {
  FakeEngine engine;
  std::string address;
  {
    TestServer server(&engine);
    address = "127.0.0.1:" + std::to_string(server.server->port());
    CHECK(ProbeHealth(address, kTimeout).ok());

    server.server->StopServing();
    const absl::Status draining = ProbeHealth(address, kTimeout);
    CHECK(draining.code() == absl::StatusCode::kUnavailable);
    CHECK(draining.message() == address + ": not serving");
  }

  const absl::Status gone = ProbeHealth(address, kTimeout);
  CHECK(gone.code() == absl::StatusCode::kUnavailable);
  CHECK(gone.message() != address + ": not serving");
}

}  // namespace
}  // namespace tributary
