// Reads what a Prometheus collector or a metrics port shows.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "prometheus/collectable.h"
#include "prometheus/text_serializer.h"

namespace tributary {

// The body of a scrape. `series`: name{labels} as written -> value. `names`: of the families (# TYPE lines).
struct Scrape {
  std::map<std::string, double> series;
  std::set<std::string> names;

  explicit Scrape(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("# TYPE ", 0) == 0) names.insert(line.substr(7, line.find(' ', 7) - 7));
      if (line.empty() || line[0] == '#') continue;
      const size_t blank = line.rfind(' ');
      series[line.substr(0, blank)] = std::strtod(line.c_str() + blank, nullptr);
    }
  }
  explicit Scrape(const prometheus::Collectable& collector)
      : Scrape(prometheus::TextSerializer().Serialize(collector.Collect())) {}

  bool has(const std::string& name) const { return series.count(name) > 0; }
  // NaN where there is no such series: unequal to everything.
  double operator[](const std::string& name) const {
    const auto found = series.find(name);
    return found == series.end() ? std::strtod("nan", nullptr) : found->second;
  }
  // Series whose name begins like this.
  size_t count(const std::string& prefix) const {
    size_t matches = 0;
    for (const auto& [name, value] : series) matches += name.rfind(prefix, 0) == 0 ? 1 : 0;
    return matches;
  }
};

// A connection to a port of 127.0.0.1; -1 when nobody listens. The caller closes it.
inline int ConnectTo(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return connection;
  close(connection);
  return -1;
}

// The whole answer of GET `path` from 127.0.0.1, headers included; empty when nobody listens.
inline std::string HttpGet(int port, const std::string& path) {
  const int connection = ConnectTo(port);
  std::string answer;
  if (connection >= 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    std::array<char, 4096> buffer{};
    if (send(connection, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
      for (ssize_t got; (got = recv(connection, buffer.data(), buffer.size(), 0)) > 0;) {
        answer.append(buffer.data(), static_cast<size_t>(got));
      }
    }
    close(connection);
  }
  return answer;
}

}  // namespace tributary
