#include "common/http/http_server.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "common/config/address.h"
#include "common/transport/socket_address.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {
namespace {

using SslPtr = std::unique_ptr<SSL, decltype(&SSL_free)>;

constexpr int kMillisPerSecond = 1000;
constexpr int kMicrosPerMilli = 1000;

int Millis(time_t seconds, time_t micros) {
  return static_cast<int>(seconds * kMillisPerSecond +
                          micros / kMicrosPerMilli);
}

// `call` again for as long as a signal interrupts it.
template <typename Call>
auto UnlessInterrupted(const Call& call) {
  while (true) {
    errno = 0;
    const auto result = call();
    if (result > 0 || errno != EINTR) return result;
  }
}

bool IsReady(int socket, short events, int timeout_millis) {
  pollfd wanted = {.fd = socket, .events = events, .revents = 0};
  return UnlessInterrupted([&] { return poll(&wanted, 1, timeout_millis); }) >
         0;
}

void Split(const absl::StatusOr<SocketAddress>& address, std::string& ip,
           int& port) {
  if (!address.ok()) return;
  const absl::StatusOr<HostPort> parts = ParseHostPort(address->ToString());
  if (!parts.ok()) return;
  ip = parts->host;
  port = parts->port;
}

// One connection for the library. Reads and writes wait for as long as the library has
// set as the socket's own timeouts (SO_RCVTIMEO, SO_SNDTIMEO), and none begins after
// `deadline`. `tls` null: in the clear.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, SSL* tls, int write_timeout_millis,
             MonotonicTime deadline)
      : socket_(socket),
        tls_(tls),
        write_timeout_millis_(write_timeout_millis),
        deadline_(deadline) {}

  [[nodiscard]] bool is_readable() const override {
    return begin_ < end_ || IsReady(socket_, POLLIN, 0);
  }

  // Streams ask whether their reader is still there.
  [[nodiscard]] bool is_writable() const override {
    if (!IsReady(socket_, POLLOUT, write_timeout_millis_)) return false;
    char byte = 0;
    const ssize_t ahead = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return ahead > 0 || (ahead < 0 && errno == EAGAIN);
  }

  // The library reads its lines byte by byte.
  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      const ssize_t received = Receive();
      if (received <= 0) return received;
      begin_ = 0;
      end_ = static_cast<size_t>(received);
    }
    const size_t count = std::min(size, end_ - begin_);
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    if (IsLate()) return -1;
    if (tls_ == nullptr) {
      return UnlessInterrupted(
          [&] { return send(socket_, from, size, MSG_NOSIGNAL); });
    }
    size_t sent = 0;
    const int is_sent = UnlessInterrupted(
        [&] { return SSL_write_ex(tls_, from, size, &sent); });
    return is_sent == 1 ? static_cast<ssize_t>(sent) : -1;
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    Split(RemoteAddress(socket_), ip, port);
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    Split(LocalAddress(socket_), ip, port);
  }
  [[nodiscard]] socket_t socket() const override { return socket_; }

 private:
  [[nodiscard]] bool IsLate() const {
    return deadline_ != MonotonicTime::InfiniteFuture() &&
           Clock::Real().Now() >= deadline_;
  }

  ssize_t Receive() {
    if (IsLate()) return -1;
    if (tls_ == nullptr) {
      return UnlessInterrupted(
          [&] { return recv(socket_, buffer_.data(), buffer_.size(), 0); });
    }
    size_t received = 0;
    const int is_received = UnlessInterrupted([&] {
      return SSL_read_ex(tls_, buffer_.data(), buffer_.size(), &received);
    });
    return is_received == 1 ? static_cast<ssize_t>(received) : -1;
  }

  const int socket_;
  SSL* const tls_;
  const int write_timeout_millis_;
  const MonotonicTime deadline_;
  std::array<char, 4096> buffer_;
  // Bytes of the buffer that the library has not read yet.
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

HttpServer::HttpServer(const std::function<void(SSL_CTX&)>& set_up)
    : has_tls_(true), tls_(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free) {
  if (tls_ != nullptr) set_up(*tls_);
}

bool HttpServer::is_valid() const { return !has_tls_ || tls_ != nullptr; }

void HttpServer::Stop() {
  stop();
  MutexLock lock(mutex_);
  is_stopped_ = true;
  for (const auto& [socket, has_begun] : connections_) {
    if (!has_begun) shutdown(socket, SHUT_RDWR);
  }
}

void HttpServer::BreakConnections() {
  MutexLock lock(mutex_);
  for (const auto& [socket, has_begun] : connections_)
    shutdown(socket, SHUT_RDWR);
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  const UniqueFd owned(socket);
  if (!Add(socket)) return false;
  const bool is_served = AwaitRequest(socket) && Serve(socket);
  // Its threads leave nothing in OpenSSL's queue of errors for the next connection.
  ERR_clear_error();
  Remove(socket);
  shutdown(socket, SHUT_RDWR);
  return is_served;
}

bool HttpServer::Serve(int socket) {
  bool is_closed = false;
  const int patience = Millis(write_timeout_sec_, write_timeout_usec_);
  const MonotonicTime deadline = request_limit_ == absl::InfiniteDuration()
                                     ? MonotonicTime::InfiniteFuture()
                                     : Clock::Real().Now() + request_limit_;
  if (!has_tls_) {
    Connection connection(socket, nullptr, patience, deadline);
    return process_request(connection, true, is_closed, nullptr);
  }
  const SslPtr tls(SSL_new(tls_.get()), &SSL_free);
  if (tls == nullptr || SSL_set_fd(tls.get(), socket) != 1) return false;
  if (UnlessInterrupted([&] { return SSL_accept(tls.get()); }) != 1)
    return false;
  Connection connection(socket, tls.get(), patience, deadline);
  if (!process_request(connection, true, is_closed, nullptr)) return false;
  SSL_shutdown(tls.get());
  return true;
}

bool HttpServer::Add(int socket) {
  MutexLock lock(mutex_);
  return !is_stopped_ && connections_.emplace(socket, false).second;
}

void HttpServer::Remove(int socket) {
  MutexLock lock(mutex_);
  connections_.erase(socket);
}

bool HttpServer::AwaitRequest(int socket) {
  if (!IsReady(socket, POLLIN, Millis(read_timeout_sec_, read_timeout_usec_)))
    return false;
  MutexLock lock(mutex_);
  connections_[socket] = true;
  return true;
}

}  // namespace ringmaster
