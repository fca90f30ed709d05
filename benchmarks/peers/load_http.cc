// HTTP/1.1 POSTs of ready bodies over connections that are kept open, one call each at a time, on one thread with
// epoll. Answers must carry Content-Length or be chunked.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <stdexcept>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmarks/peers/load.h"

namespace tributary::peers {
namespace {

constexpr int kHttpOk = 200;

// Bytes of the answer at the start of `text`, head and body; 0: it is not complete. `code`: its status.
size_t AnswerLength(absl::string_view text, int* code) {
  const size_t head_end = text.find("\r\n\r\n");
  if (head_end == absl::string_view::npos) return 0;
  const std::string head = absl::AsciiStrToLower(text.substr(0, head_end));
  const size_t body = head_end + 4;
  if (head.size() < 12 || !absl::SimpleAtoi(absl::string_view(head).substr(9, 3), code)) *code = kConnection;
  constexpr absl::string_view kLength = "\r\ncontent-length:";
  if (const size_t at = head.find(kLength.data()); at != std::string::npos) {
    const size_t length = std::strtoull(head.c_str() + at + kLength.size(), nullptr, 10);
    return text.size() >= body + length ? body + length : 0;
  }
  const size_t last_chunk = text.find("0\r\n\r\n", body);
  return last_chunk == absl::string_view::npos ? 0 : last_chunk + 5;
}

class HttpSender final : public Sender {
 public:
  HttpSender(const LoadOptions& options, Done done)
      : options_(options), done_(std::move(done)), epoll_(epoll_create1(0)) {
    const size_t colon = options.address.rfind(':');
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (colon == std::string::npos || getaddrinfo(options.address.substr(0, colon).c_str(),
                                                  options.address.substr(colon + 1).c_str(), &hints, &found) != 0) {
      throw std::runtime_error(absl::StrCat("no address HOST:PORT: ", options.address));
    }
    addresses_ = found;
    for (const std::string& body : options.payloads) {
      requests_.push_back(absl::StrCat("POST ", options.path, " HTTP/1.1\r\nHost: ", options.address,
                                       "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                                       "\r\n\r\n", body));
    }
  }

  ~HttpSender() override {
    for (const auto& connection : connections_) {
      if (connection->socket >= 0) close(connection->socket);
    }
    close(epoll_);
    freeaddrinfo(addresses_);
  }

  void Send(size_t call, uint64_t payload) override {
    if (idle_.empty() && connections_.size() >= options_.connections) {
      done_(call, kNotSent, 0);
      return;
    }
    if (idle_.empty()) {
      connections_.push_back(std::make_unique<Connection>());
      idle_.push_back(connections_.back().get());
    }
    Connection& connection = *idle_.back();
    idle_.pop_back();
    connection.call = call;
    connection.open = true;
    connection.unsent = requests_[payload];
    connection.received.clear();
    if (connection.socket < 0) Connect(connection);
    if (connection.socket >= 0) Write(connection);
  }

  void Wait(SteadyTime until, bool wake_on_answer) override {
    answered_ = false;
    do {
      const auto left = until - std::chrono::steady_clock::now();
      const auto nanos = std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(left).count());
      const timespec timeout{.tv_sec = nanos / 1000000000, .tv_nsec = nanos % 1000000000};
      std::array<epoll_event, 64> events{};
      const int ready = epoll_pwait2(epoll_, events.data(), events.size(), &timeout, nullptr);
      for (int i = 0; i < ready; ++i) {
        Connection& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
        if (!connection.unsent.empty()) Write(connection);
        if (connection.socket >= 0) Read(connection);
      }
    } while (!(wake_on_answer && answered_) && std::chrono::steady_clock::now() < until);
  }

 private:
  struct Connection {
    int socket = -1;
    bool open = false;  // a call waits for its answer
    size_t call = 0;
    absl::string_view unsent;
    std::string received;
  };

  void Connect(Connection& connection) {
    connection.socket = socket(addresses_->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connection.socket < 0) throw std::runtime_error(absl::StrCat("no socket: errno ", errno));
    const int on = 1;
    setsockopt(connection.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(connection.socket, addresses_->ai_addr, addresses_->ai_addrlen) != 0 && errno != EINPROGRESS) {
      return End(connection, kConnection, 0, /*keep=*/false);
    }
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data = {.ptr = &connection}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.socket, &event);
  }

  void Write(Connection& connection) {
    while (!connection.unsent.empty()) {
      const ssize_t sent = send(connection.socket, connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) return;  // EPOLLOUT goes on
      if (sent < 0) return End(connection, kConnection, 0, /*keep=*/false);
      connection.unsent.remove_prefix(static_cast<size_t>(sent));
    }
  }

  void Read(Connection& connection) {
    std::array<char, 65536> buffer{};
    while (true) {
      const ssize_t got = recv(connection.socket, buffer.data(), buffer.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
      if (got <= 0) return End(connection, kConnection, 0, /*keep=*/false);
      connection.received.append(buffer.data(), static_cast<size_t>(got));
    }
    int code = 0;
    const size_t length = AnswerLength(connection.received, &code);
    if (length == 0 || !connection.open) return;
    if (code == kHttpOk) code = length < options_.min_answer_bytes ? kShortAnswer : 0;
    End(connection, code, static_cast<uint32_t>(length), /*keep=*/true);
  }

  void End(Connection& connection, int32_t code, uint32_t bytes, bool keep) {
    if (!keep) {
      close(connection.socket);  // epoll forgets it
      connection.socket = -1;
    }
    connection.unsent = {};
    if (!connection.open) return;  // the server closed a connection that was idle: the next call opens another
    connection.open = false;
    idle_.push_back(&connection);
    answered_ = true;
    done_(connection.call, code, bytes);
  }

  const LoadOptions& options_;
  Done done_;
  int epoll_;
  addrinfo* addresses_ = nullptr;
  std::vector<std::string> requests_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> idle_;
  bool answered_ = false;
};

}  // namespace

std::unique_ptr<Sender> MakeHttpSender(const LoadOptions& options, Sender::Done done) {
  return std::make_unique<HttpSender>(options, std::move(done));
}

}  // namespace tributary::peers
