#include "common/rpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/logging/logging.h"
#include "common/rpc/channel.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Descriptors of a process beside its connections: some 40 while it is idle,
// the rest for the files that a journal and a log open now and then, for
// scrapes, probes and the connections that gRPC is about to close.
constexpr int kReserve = 128;
// Where few descriptors are allowed, so that there is room for connections.
constexpr int kLeastReserve = 48;

constexpr absl::Duration kAcceptRetry = absl::Milliseconds(100);
constexpr absl::Duration kSweepInterval = absl::Seconds(1);
// A flood does not cause more sweeps than this.
constexpr absl::Duration kLeastSweepInterval = absl::Milliseconds(100);
constexpr absl::Duration kReportInterval = absl::Seconds(10);
// So that connections which wait do not delay Stop.
constexpr int kAcceptsInARow = 64;

int DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kMostDescriptors));
}

// The inode of the open file `fd`, 0 if there is none.
ino_t InodeOf(int fd) {
  struct stat file = {};
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

struct Peer {
  std::string host;
  std::string name;  // as grpc::ServerContext::peer()
};

Peer PeerOf(int fd) {
  sockaddr_in6 v6 = {};
  socklen_t length = sizeof(v6);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&v6), &length) != 0)
    return {};
  char host[INET6_ADDRSTRLEN] = "";
  // The port lies at the same place in both kinds of address.
  const int port = ntohs(v6.sin6_port);
  const bool is_mapped =
      v6.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
  if (v6.sin6_family == AF_INET || is_mapped) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(v6);
    const void* const address =
        is_mapped ? static_cast<const void*>(v6.sin6_addr.s6_addr + 12)
                  : static_cast<const void*>(&v4.sin_addr);
    inet_ntop(AF_INET, address, host, sizeof(host));
    return {host, absl::StrCat("ipv4:", host, ":", port)};
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
  const std::string scope =
      v6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6.sin6_scope_id);
  return {host, absl::StrCat("ipv6:%5B", host, scope, "%5D:", port)};
}

// As gRPC sets them on connections that it accepts itself.
void SetConnectionOptions(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kServerKeepaliveTimeoutMs,
             sizeof(kServerKeepaliveTimeoutMs));
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t most = std::min<rlim_t>(limit.rlim_max, kMostDescriptors);
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  // If that is refused, the old limit is divided.
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

DescriptorShares DescriptorShares::Now(int max_strangers) {
  const int limit = DescriptorLimit();
  DescriptorShares shares;
  shares.reserve = std::clamp(limit / 4, kLeastReserve, kReserve);
  const int rest = std::max(limit - shares.reserve, 0);
  shares.strangers = std::clamp(rest / 4, 1, max_strangers);
  shares.members = std::max(rest - shares.strangers, 0);
  return shares;
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(
    const HostPort& address, int max_strangers) {
  ASSIGN_OR_RETURN(ListeningSockets listening, ListenOn(address));
  std::unique_ptr<Acceptor> acceptor(new Acceptor(
      {address.host, listening.port}, std::move(listening), max_strangers));
  if (!acceptor->stop_event_.is_open()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(),
                     ": eventfd: ", std::strerror(errno)));
  }
  return acceptor;
}

Acceptor::Acceptor(const HostPort& address, ListeningSockets listening,
                   int max_strangers)
    : address_(address),
      max_strangers_(max_strangers),
      listening_(std::move(listening)),
      stop_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::AddTo(grpc::ServerBuilder& builder,
                     std::shared_ptr<grpc::ServerCredentials> credentials) {
  server_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
  sweeper_.emplace(Clock::Real(), kSweepInterval, [this] { SweepAndReport(); });
}

void Acceptor::Stop() {
  (void)eventfd_write(stop_event_.get(), 1);
  if (thread_.joinable()) thread_.join();
  sweeper_.reset();
  listening_.sockets.clear();
}

void Acceptor::Run() {
  std::vector<pollfd> waits = {{stop_event_.get(), POLLIN, 0}};
  for (const UniqueFd& socket : listening_.sockets)
    waits.push_back({socket.get(), POLLIN, 0});
  while (true) {
    (void)poll(waits.data(), waits.size(), -1);
    if (waits[0].revents != 0) return;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0 || AcceptFrom(waits[i].fd)) continue;
      // The connection waits in the kernel, so that poll would not.
      (void)poll(waits.data(), 1,
                 static_cast<int>(absl::ToInt64Milliseconds(kAcceptRetry)));
    }
  }
}

bool Acceptor::AcceptFrom(int listening) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    const int fd =
        accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int error = errno;
    const bool is_short = fd < 0 && (error == EMFILE || error == ENFILE ||
                                     error == ENOBUFS || error == ENOMEM);
    {
      MutexLock lock(mutex_);
      dropped_.accept_error = is_short ? std::strerror(error) : "";
    }
    if (is_short) return false;
    // Nothing waits, or what waited is gone again: accept(2) says to treat its
    // network errors like EAGAIN.
    if (fd < 0) return true;
    Take(fd, listening);
  }
  return true;
}

void Acceptor::Take(int fd, int listening) {
  const Peer peer = PeerOf(fd);
  if (peer.name.empty()) {  // gone already
    close(fd);
    return;
  }
  SetConnectionOptions(fd);
  const DescriptorShares shares = DescriptorShares::Now(max_strangers_);
  const int limit = DescriptorLimit();
  std::vector<Socket> to_go;
  {
    MutexLock lock(mutex_);
    // The kernel gives the lowest free number, so that all below are in use.
    if (fd >= limit - shares.reserve / 2) {
      close(fd);
      NoteDropped(peer.host, absl::StrCat("of ", limit,
                                          " descriptors (ulimit -n), only the "
                                          "reserve is free"));
      return;
    }
    const int64_t id = ++last_id_;
    connections_.emplace(id, Connection{.socket = {fd, InodeOf(fd)},
                                        .host = peer.host,
                                        .peer = peer.name});
    by_peer_[peer.name] = id;
    AddStranger(id, peer.host);
    to_go = MakeRoom(shares.strangers);
  }
  for (const Socket& socket : to_go) ShutDown(socket);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      connection;
  connection.listener_fd = listening;
  connection.fd = fd;
  server_->HandleNewConnection(&connection);
}

std::vector<Acceptor::Socket> Acceptor::MakeRoom(int share) {
  std::vector<Socket> to_go;
  if (strangers_ <= share) return to_go;
  if (Clock::Real().Now() - swept_ >= kLeastSweepInterval) Sweep();
  while (strangers_ > share) {
    const auto it = NextToGo();
    NoteDropped(it->second.host,
                absl::StrCat("connections without a session are limited to ",
                             share, " in all; the oldest go"));
    to_go.push_back(it->second.socket);
    Erase(it);
  }
  return to_go;
}

Acceptor::Connections::iterator Acceptor::NextToGo() {
  const auto has_fewer = [](const auto& a, const auto& b) {
    // Among hosts with as many, the one whose oldest is younger comes first.
    return std::pair(a.second.size(), -*a.second.begin()) <
           std::pair(b.second.size(), -*b.second.begin());
  };
  const auto host = std::max_element(strangers_of_host_.begin(),
                                     strangers_of_host_.end(), has_fewer);
  return connections_.find(*host->second.begin());
}

void Acceptor::AddStranger(int64_t id, const std::string& host) {
  strangers_of_host_[host].insert(id);
  ++strangers_;
}

void Acceptor::RemoveStranger(int64_t id, const std::string& host) {
  const auto it = strangers_of_host_.find(host);
  it->second.erase(id);
  if (it->second.empty()) strangers_of_host_.erase(it);
  --strangers_;
}

void Acceptor::Erase(Connections::iterator it) {
  if (it->second.admissions == 0) RemoveStranger(it->first, it->second.host);
  const auto named = by_peer_.find(it->second.peer);
  if (named != by_peer_.end() && named->second == it->first)
    by_peer_.erase(named);
  connections_.erase(it);
}

void Acceptor::Sweep() {
  swept_ = Clock::Real().Now();
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto here = it++;
    if (!IsOpen(here->second.socket)) Erase(here);
  }
}

bool Acceptor::IsOpen(const Socket& socket) {
  return InodeOf(socket.fd) == socket.inode;
}

void Acceptor::ShutDown(const Socket& socket) {
  // gRPC may close it at any moment, and the number be another file's then: a
  // copy stays what it is.
  const UniqueFd copy(fcntl(socket.fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open() || InodeOf(copy.get()) != socket.inode) return;
  (void)shutdown(copy.get(), SHUT_RDWR);
}

void Acceptor::Admit(const std::string& peer) {
  MutexLock lock(mutex_);
  const auto named = by_peer_.find(peer);
  if (named == by_peer_.end()) return;
  Connection& connection = connections_.at(named->second);
  if (connection.admissions++ == 0)
    RemoveStranger(named->second, connection.host);
}

void Acceptor::Dismiss(const std::string& peer) {
  MutexLock lock(mutex_);
  const auto named = by_peer_.find(peer);
  if (named == by_peer_.end()) return;
  Connection& connection = connections_.at(named->second);
  if (connection.admissions > 0 && --connection.admissions == 0)
    AddStranger(named->second, connection.host);
}

ConnectionCounts Acceptor::counts() const {
  MutexLock lock(mutex_);
  return {.members = static_cast<int64_t>(connections_.size()) - strangers_,
          .strangers = strangers_,
          .dropped = dropped_total_};
}

void Acceptor::NoteDropped(std::string host, std::string why) {
  ++dropped_total_;
  ++dropped_.count;
  dropped_.host = std::move(host);
  dropped_.why = std::move(why);
}

void Acceptor::SweepAndReport() {
  Dropped dropped;
  {
    MutexLock lock(mutex_);
    Sweep();
    const bool is_news = dropped_.count > 0 || !dropped_.accept_error.empty();
    if (!is_news || swept_ < report_after_) return;
    report_after_ = swept_ + kReportInterval;
    dropped = std::exchange(dropped_, {});
  }
  if (dropped.count > 0) {
    LogEvent(LogLevel::kWarning, "server.connections_dropped",
             {{"address", address_.ToString()},
              {"count", dropped.count},
              {"last_host", dropped.host},
              {"message", dropped.why}});
  }
  if (!dropped.accept_error.empty()) {
    LogEvent(LogLevel::kWarning, "server.cannot_accept",
             {{"address", address_.ToString()},
              {"message", absl::StrCat(dropped.accept_error,
                                       "; connections wait until it works")}});
  }
}

}  // namespace ringmaster
