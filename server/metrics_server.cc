#include "server/metrics_server.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {

MetricsServer::MetricsServer(std::vector<std::shared_ptr<prometheus::Collectable>> collectors,
                             std::unique_ptr<prometheus::Exposer> exposer, int port)
    : collectors_(std::move(collectors)), exposer_(std::move(exposer)), port_(port) {
  for (const auto& collector : collectors_) exposer_->RegisterCollectable(collector);
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Create(
    const std::string& listen, std::vector<std::shared_ptr<prometheus::Collectable>> collectors) {
  const std::vector<std::string> civetweb = {"listening_ports", listen,
                                             // Scrapes are rare: two at once, more wait.
                                             "num_threads", "2",
                                             // A client that stops reading or sending must not hold one of them.
                                             "request_timeout_ms", "10000"};
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(civetweb);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) return absl::UnavailableError(absl::StrCat("metrics: ", listen, " gave no port"));
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(collectors), std::move(exposer), ports.front()));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("metrics: cannot listen on ", listen, ": ", error.what()));
  }
}

}  // namespace tributary
