// The HTTP port that Prometheus scrapes, apart from the gRPC port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace tributary {

// Serves GET /metrics from its own threads (civetweb's) until destroyed; destruction waits for scrapes under way, so
// destroy it before the engine and whatever else the collectors borrow.
// `listen`: "address:port", IPv6 as "[::]:port"; port 0: any free one.
// Errors: UNAVAILABLE the address cannot be bound.
class MetricsServer {
 public:
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Create(
      const std::string& listen, std::vector<std::shared_ptr<prometheus::Collectable>> collectors);

  ~MetricsServer();

  // The real one, also where 0 was asked for.
  int port() const { return port_; }

 private:
  MetricsServer(std::vector<std::shared_ptr<prometheus::Collectable>> collectors,
                std::unique_ptr<prometheus::Exposer> exposer, const std::string& listen, int port);

  // The exposer holds the collectors weakly.
  const std::vector<std::shared_ptr<prometheus::Collectable>> collectors_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string host_;  // where a connection from this machine reaches the port
  const int port_;
};

}  // namespace tributary
