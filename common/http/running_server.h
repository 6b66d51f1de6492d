// RunningServer runs an HTTP server on a thread of its own, and ends it whatever its
// clients do.
//
// Thread-compatible.
// Example:
//   auto server = std::make_unique<HttpServer>();
//   server->Get("/", ...);
//   ASSIGN_OR_RETURN(const HostPort bound, Bind(address, *server));
//   const RunningServer running(std::move(server), bound);
#ifndef RINGMASTER_COMMON_HTTP_RUNNING_SERVER_H_
#define RINGMASTER_COMMON_HTTP_RUNNING_SERVER_H_

#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "common/config/address.h"
#include "common/http/http_server.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class RunningServer {
 public:
  // Time for the requests under way when the server ends.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Runs `server`, which Bind has bound to `address`.
  RunningServer(std::unique_ptr<HttpServer> server, HostPort address);
  // Stops and waits for the requests under way. Breaks the connections of those that
  // are not over after kPatience: a client that sends or takes a byte at a time
  // delays the end no further, a handler that blocks does.
  ~RunningServer();
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  // Takes no more connections. Requests under way go on; answers that are made piece
  // by piece end.
  void Stop();

  // The address that it listens on.
  [[nodiscard]] const HostPort& address() const { return address_; }

 private:
  void Run() EXCLUDES(mutex_);
  [[nodiscard]] bool AwaitEnd(absl::Duration patience) EXCLUDES(mutex_);

  const std::unique_ptr<HttpServer> server_;
  const HostPort address_;
  bool is_stopped_ = false;
  Mutex mutex_;
  CondVar ended_;
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_HTTP_RUNNING_SERVER_H_
