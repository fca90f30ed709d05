#include "server/metrics_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/worker_thread.h"

namespace tributary {
namespace {

// The address part of "address:port" or "[address]:port"; where it means all addresses, the loopback one.
std::string ReachableHost(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  std::string host = colon == std::string::npos ? "" : listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

// Opens and closes one connection. Whether it got as far as the backlog, which is all that is wanted.
bool Touch(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* address = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &address) != 0) return false;
  const int connection = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool reached = false;
  if (connection >= 0) {
    reached = connect(connection, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS;
    close(connection);
  }
  freeaddrinfo(address);
  return reached;
}

}  // namespace

MetricsServer::MetricsServer(std::vector<std::shared_ptr<prometheus::Collectable>> collectors,
                             std::unique_ptr<prometheus::Exposer> exposer, const std::string& listen, int port)
    : collectors_(std::move(collectors)), exposer_(std::move(exposer)), host_(ReachableHost(listen)), port_(port) {
  for (const auto& collector : collectors_) exposer_->RegisterCollectable(collector);
}

MetricsServer::~MetricsServer() {
  // civetweb looks whether it should stop after every connection, and otherwise every 2 s: too long for a drain.
  std::atomic<bool> stopped{false};
  const WorkerThread waker("trib-metr-stop", [&] {
    while (!stopped.load(std::memory_order_relaxed)) {
      Touch(host_, port_);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  exposer_.reset();
  stopped.store(true, std::memory_order_relaxed);
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Create(
    const std::string& listen, std::vector<std::shared_ptr<prometheus::Collectable>> collectors) {
  const std::vector<std::string> civetweb = {"listening_ports", listen,
                                             // Two scrapes at once are rare; the rest are for connections that
                                             // say nothing, each of which holds a thread for the time-out.
                                             "num_threads", "8", "request_timeout_ms", "1000"};
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(civetweb);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) return absl::UnavailableError(absl::StrCat("metrics: ", listen, " gave no port"));
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(std::move(collectors), std::move(exposer), listen, ports.front()));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("metrics: cannot listen on ", listen, ": ", error.what()));
  }
}

}  // namespace tributary
