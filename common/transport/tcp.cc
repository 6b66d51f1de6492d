#include "common/transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/config/address.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/unix_socket.h"

namespace ringmaster {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;
// Inside a host, what is sent and not yet read should stay in a cache: no
// distance has to be bridged.
constexpr int kSameHostSendBytes = 512 << 10;
// Connections of probes wait here while a member trains and accepts none; where
// the queue is full, nobody is answered. The kernel may allow fewer.
constexpr int kBacklog = 1024;

void SetIntOption(int socket, int level, int option, int value) {
  // Only tuning: a kernel that refuses gives a slower link, not a wrong one.
  (void)setsockopt(socket, level, option, &value, sizeof value);
}

// Before connect or listen, so that the window scale is agreed accordingly;
// accepted sockets inherit them.
void SetBufferOptions(int socket) {
  SetIntOption(socket, SOL_SOCKET, SO_SNDBUF, kSocketBufferBytes);
  SetIntOption(socket, SOL_SOCKET, SO_RCVBUF, kSocketBufferBytes);
}

const std::string& AvailableCongestionControls() {
  static const std::string* const available = [] {
    std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
    std::stringstream text;
    text << file.rdbuf();
    return new std::string(text.str());
  }();
  return *available;
}

void SetConnectedOptions(int socket) {
  SetIntOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  const absl::StatusOr<SocketAddress> local = LocalAddress(socket);
  const absl::StatusOr<SocketAddress> remote = RemoteAddress(socket);
  if (!local.ok() || !remote.ok() || !IsSameHost(*local, *remote)) return;
  SetIntOption(socket, SOL_SOCKET, SO_SNDBUF, kSameHostSendBytes);
  char current[16] = "";
  socklen_t length = sizeof current - 1;
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, current, &length) != 0)
    return;
  const std::string wanted =
      LocalCongestionControl(current, AvailableCongestionControls());
  if (wanted.empty()) return;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, wanted.data(),
                   wanted.size());
}

absl::StatusOr<UniqueFd> NewSocket(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           IPPROTO_TCP));
  if (!socket.is_open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a socket: ", strerror(errno)));
  }
  SetBufferOptions(socket.get());
  return socket;
}

absl::Status CannotListen(const SocketAddress& address, int error) {
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", address.ToString(), ": ", strerror(error)));
}

}  // namespace

int BindAndListen(int socket, const SocketAddress& address, int backlog) {
  SetIntOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6)
    SetIntOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket, address.get(), address.length) != 0) return errno;
  return listen(socket, backlog) != 0 ? errno : 0;
}

std::string LocalCongestionControl(std::string_view current,
                                   std::string_view available) {
  if (!current.starts_with("bbr")) return "";
  std::istringstream names{std::string(available)};
  bool has_reno = false;
  for (std::string name; names >> name;) {
    if (name == "cubic") return name;
    has_reno |= name == "reno";
  }
  return has_reno ? "reno" : "";
}

absl::StatusOr<Listener> Listener::Listen(std::string_view host_port) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                   Resolve(host_port));
  const SocketAddress& address = addresses.front();
  ASSIGN_OR_RETURN(UniqueFd socket, NewSocket(address.storage.ss_family));
  const int error = BindAndListen(socket.get(), address, kBacklog);
  if (error != 0) return CannotListen(address, error);
  ASSIGN_OR_RETURN(const SocketAddress bound, LocalAddress(socket.get()));
  return Listener(std::move(socket), bound, ListenUnix(bound.port()));
}

absl::StatusOr<Listener> Listener::ListenInRange(std::string_view host,
                                                 uint16_t first,
                                                 uint16_t last) {
  if (first == 0 || first > last) {
    return absl::InvalidArgumentError(
        absl::StrCat("no range of ports: ", first, " to ", last));
  }
  for (int port = first; port <= last; ++port) {
    ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                     Resolve(HostPort{std::string(host), port}.ToString()));
    const SocketAddress& address = addresses.front();
    ASSIGN_OR_RETURN(UniqueFd socket, NewSocket(address.storage.ss_family));
    const int error = BindAndListen(socket.get(), address, kBacklog);
    if (error == 0) {
      return Listener(std::move(socket), address,
                      ListenUnix(static_cast<uint16_t>(port)));
    }
    if (error != EADDRINUSE) return CannotListen(address, error);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot listen on ", std::string(host), ": all ports from ",
                   first, " to ", last, " are in use"));
}

Listener::Listener(UniqueFd socket, const SocketAddress& address,
                   absl::StatusOr<UniqueFd> unix_socket)
    : socket_(std::move(socket)),
      address_(address),
      unix_status_(unix_socket.status()) {
  if (unix_socket.ok()) unix_ = *std::move(unix_socket);
}

absl::StatusOr<UniqueFd> Listener::TryAccept() const {
  ASSIGN_OR_RETURN(UniqueFd socket, Accept(fd()));
  if (socket.is_open()) SetConnectedOptions(socket.get());
  return socket;
}

absl::StatusOr<UniqueFd> Listener::TryAcceptUnix() const {
  ASSIGN_OR_RETURN(UniqueFd socket, Accept(unix_fd()));
  if (socket.is_open()) SetUnixOptions(socket.get());
  return socket;
}

absl::StatusOr<UniqueFd> Listener::Accept(int listening) const {
  UniqueFd socket(
      accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) return socket;
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
      errno == ENOMEM) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot accept on ", address_.ToString(), ": ", strerror(errno)));
  }
  // Nothing waits, or what waited is gone again: accept(2) says to treat its
  // network errors like EAGAIN.
  return UniqueFd();
}

void ProbeWhenIdle(int socket, absl::Duration limit) {
  if (limit == absl::InfiniteDuration()) return;
  // First after `unit` of silence, then `count` times; the kernel gives up a
  // unit after the last.
  const auto total = static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Seconds(absl::Ceil(limit, absl::Seconds(1))), 3, 36000));
  const int unit = total / 4 > 0 ? total / 4 : 1;
  const int count = (total + unit - 1) / unit - 1;
  SetIntOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetIntOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, unit);
  SetIntOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, unit);
  SetIntOption(socket, IPPROTO_TCP, TCP_KEEPCNT, count);
}

bool IsUnanswered(int socket) {
  tcp_info state = {};
  socklen_t length = sizeof state;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &state, &length) != 0) {
    return false;  // Not TCP.
  }
  // Every acknowledgement sets the probes to 0, but the retransmissions only if
  // it takes something new: a peer whose buffer is full acknowledges without.
  // Such answers are limited to one in half a second, so the first of a row
  // (which come after 0.2s, 0.4s, 0.8s, ...) may well be missing.
  return state.tcpi_probes >= 2 ||
         (state.tcpi_retransmits >= 3 &&
          state.tcpi_last_data_sent < state.tcpi_last_ack_recv);
}

absl::StatusOr<UniqueFd> BeginConnect(const SocketAddress& address) {
  ASSIGN_OR_RETURN(UniqueFd socket, NewSocket(address.storage.ss_family));
  if (connect(socket.get(), address.get(), address.length) != 0 &&
      errno != EINPROGRESS) {
    const int error = errno;
    return WithLinkFailure(
        absl::UnavailableError(absl::StrCat(
            "cannot connect to ", address.ToString(), ": ", strerror(error))),
        LinkFailureOfErrno(error));
  }
  return socket;
}

absl::Status ConnectResult(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
    error = errno;
  if (error != 0) {
    return WithLinkFailure(
        absl::UnavailableError(absl::StrCat("connect: ", strerror(error))),
        LinkFailureOfErrno(error));
  }
  SetConnectedOptions(socket);
  return absl::OkStatus();
}

}  // namespace ringmaster
