#include "benchmarks/client/server_metrics.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tributary::bench {
namespace {

// A connected socket with a 5 s limit on every step; closed at the end.
class Socket {
 public:
  Socket(const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return;
    for (const addrinfo* address = found; address != nullptr && fd_ < 0; address = address->ai_next) {
      fd_ = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
      if (fd_ < 0) continue;
      const timeval limit{.tv_sec = 5, .tv_usec = 0};
      setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
      setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
      if (connect(fd_, address->ai_addr, address->ai_addrlen) == 0) break;
      close(fd_);
      fd_ = -1;
    }
    freeaddrinfo(found);
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace

std::map<std::string, double> ParseMetrics(const std::string& page) {
  std::map<std::string, double> samples;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    double value = 0;
    if (space == std::string::npos || !absl::SimpleAtod(line.substr(space + 1), &value)) continue;
    const std::string name = line.substr(0, space);
    if (name.find("_bucket{") != std::string::npos) continue;
    samples[name] = value;
  }
  return samples;
}

std::string LabelValue(const std::string& sample, const std::string& label) {
  std::string name;
  std::string value;
  bool quoted = false;
  for (size_t at = sample.find('{'); ++at < sample.size();) {  // npos + 1 is 0: without '{' there is nothing quoted
    const char c = sample[at];
    if (!quoted) {
      if (c == '"') {
        quoted = true;
      } else if (c == ',') {
        name.clear();
      } else if (c != '=') {
        name += c;
      }
    } else if (c == '\\' && at + 1 < sample.size()) {
      const char escaped = sample[++at];
      value += escaped == 'n' ? '\n' : escaped;
    } else if (c == '"') {
      if (name == label) return value;
      quoted = false;
      value.clear();
    } else {
      value += c;
    }
  }
  return "";
}

absl::StatusOr<std::map<std::string, double>> ReadServerMetrics(const std::string& target) {
  std::string address = target;
  if (address.rfind("http://", 0) == 0) address.erase(0, 7);
  address = address.substr(0, address.find('/'));
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("metrics-url '", target, "' is not HOST:PORT"));
  }
  const Socket connection(address.substr(0, colon), address.substr(colon + 1));
  if (connection.fd() < 0) return absl::UnavailableError(absl::StrCat("no metrics: cannot connect to ", address));
  // HTTP/1.0: the answer ends with the connection and is not chunked.
  const std::string request = absl::StrCat("GET /metrics HTTP/1.0\r\nHost: ", address, "\r\n\r\n");
  if (send(connection.fd(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return absl::UnavailableError(absl::StrCat("no metrics: cannot send to ", address));
  }
  std::string answer;
  std::array<char, 16384> bytes;
  for (ssize_t got; (got = recv(connection.fd(), bytes.data(), bytes.size(), 0)) > 0;) {
    answer.append(bytes.data(), static_cast<size_t>(got));
  }
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos || answer.substr(0, answer.find('\r')).find(" 200") == std::string::npos) {
    return absl::UnavailableError(
        absl::StrCat("no metrics: ", address, " answered '", answer.substr(0, answer.find('\r')), "'"));
  }
  return ParseMetrics(answer.substr(body + 4));
}

}  // namespace tributary::bench
