// Acceptor takes a gRPC server's connections in gRPC's place, and bounds them.
//
// gRPC's own listener closes for good once accept(2) fails, as it does out of
// descriptors; this one goes on when some are free again. It also keeps
// strangers, connections that nobody has admitted, from taking what members
// and the process itself need:
//   - A reserve of descriptors is left to files and other sockets.
//   - Strangers have a share of the rest. One too many takes the place of the
//     oldest of the host that has the most: whoever floods the port pushes out
//     connections of its own, and a newcomer has the time for its handshake.
// The dropped ones are counted, and logged every ten seconds at most
// (server.connections_dropped, server.cannot_accept).
//
// Thread-safe, except for AddTo, Start and Stop. Free of gRPC's headers.
// Ownership: to be destroyed after the server, and stopped before it.
// Example:
//   ASSIGN_OR_RETURN(acceptor, Acceptor::Listen(address));
//   acceptor->AddTo(builder, credentials);
//   server = builder.BuildAndStart();
//   acceptor->Start();
#ifndef RINGMASTER_COMMON_RPC_ACCEPTOR_H_
#define RINGMASTER_COMMON_RPC_ACCEPTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "common/config/address.h"
#include "common/rpc/listen.h"
#include "common/sync/mutex.h"
#include "common/sync/periodic_thread.h"
#include "common/transport/unique_fd.h"

namespace grpc {
class ServerBuilder;
class ServerCredentials;
namespace experimental {
class ExternalConnectionAcceptor;
}  // namespace experimental
}  // namespace grpc

namespace ringmaster {

// Raises the process's soft limit of descriptors to its hard one, or to
// kMostDescriptors. A shell's usual soft limit of 1,024 is meant for programs that
// call select(2).
inline constexpr int kMostDescriptors = 1 << 20;
void RaiseDescriptorLimit();

// The descriptors that the process may have (RLIMIT_NOFILE), divided among its
// connections and the rest.
struct DescriptorShares {
  int reserve = 0;    // for everything else
  int strangers = 0;  // at most max_strangers, and a quarter of the rest
  int members = 0;    // all others

  // The shares of the limit as it is now.
  [[nodiscard]] static DescriptorShares Now(int max_strangers);
};

struct ConnectionCounts {
  int64_t members = 0;
  int64_t strangers = 0;
  int64_t dropped = 0;  // in all, for room
};

class Acceptor {
 public:
  static constexpr int kMaxStrangers = 1000;

  // Listens at `address` (ListenOn), and accepts nothing yet.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(
      const HostPort& address, int max_strangers = kMaxStrangers);
  // Stops.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // The address that it listens on, with the chosen port.
  [[nodiscard]] const HostPort& address() const { return address_; }

  // The server of `builder` gets its connections from here.
  void AddTo(grpc::ServerBuilder& builder,
             std::shared_ptr<grpc::ServerCredentials> credentials);
  // Begins to accept; the server has started.
  void Start();
  // Accepts no more and closes the port. Connections stay.
  void Stop();

  // The connection of `peer`, as grpc::ServerContext::peer() names it, belongs
  // to a member until Dismiss was called as often.
  void Admit(const std::string& peer) EXCLUDES(mutex_);
  void Dismiss(const std::string& peer) EXCLUDES(mutex_);

  // Those that gRPC has closed count for up to a second.
  [[nodiscard]] ConnectionCounts counts() const EXCLUDES(mutex_);

 private:
  // A socket that gRPC owns and may have closed: the number may be another
  // file's by now.
  struct Socket {
    int fd = -1;
    ino_t inode = 0;
  };
  struct Connection {
    Socket socket = {};
    std::string host = {};
    std::string peer = {};
    int admissions = 0;
  };
  struct Dropped {
    int64_t count = 0;  // since the last report
    std::string host;   // the last one's
    std::string why;
    std::string accept_error;  // empty: accept works
  };
  using Connections = std::map<int64_t, Connection>;  // oldest first

  Acceptor(const HostPort& address, ListeningSockets listening,
           int max_strangers);

  static bool IsOpen(const Socket& socket);
  static void ShutDown(const Socket& socket);

  void Run();
  // Takes the connections that wait. False if accept failed for want of
  // something that may be free later.
  bool AcceptFrom(int listening) EXCLUDES(mutex_);
  // Hands `fd` over to the server, or closes it.
  void Take(int fd, int listening) EXCLUDES(mutex_);
  // Makes room for strangers beyond `share`; returns those to shut down.
  std::vector<Socket> MakeRoom(int share) REQUIRES(mutex_);
  // The oldest stranger of the host that has the most.
  Connections::iterator NextToGo() REQUIRES(mutex_);
  void Erase(Connections::iterator it) REQUIRES(mutex_);
  void AddStranger(int64_t id, const std::string& host) REQUIRES(mutex_);
  void RemoveStranger(int64_t id, const std::string& host) REQUIRES(mutex_);
  // Forgets connections that gRPC has closed.
  void Sweep() REQUIRES(mutex_);
  void NoteDropped(std::string host, std::string why) REQUIRES(mutex_);
  void SweepAndReport() EXCLUDES(mutex_);

  const HostPort address_;
  const int max_strangers_;
  ListeningSockets listening_;
  UniqueFd stop_event_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;

  mutable Mutex mutex_;
  Connections connections_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int64_t> by_peer_ GUARDED_BY(mutex_);
  int64_t last_id_ GUARDED_BY(mutex_) = 0;
  int strangers_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, std::set<int64_t>> strangers_of_host_
      GUARDED_BY(mutex_);
  int64_t dropped_total_ GUARDED_BY(mutex_) = 0;
  Dropped dropped_ GUARDED_BY(mutex_);
  MonotonicTime swept_ GUARDED_BY(mutex_);
  MonotonicTime report_after_ GUARDED_BY(mutex_);

  std::thread thread_;
  std::optional<PeriodicThread> sweeper_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_ACCEPTOR_H_
