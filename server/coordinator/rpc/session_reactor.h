// SessionReactor is a worker's gRPC stream: it parses what comes in, for the
// runtime, and writes what the runtime sends.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_REACTOR_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/call_context.h"
#include "common/rpc/peer_address.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "server/coordinator/rpc/open_calls.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/session_stream.h"

namespace ringmaster::coordinator {

// Messages that wait for a worker to read; far more than the protocol ever has
// under way.
inline constexpr size_t kMaxQueuedMessages = 256;

// Thread-safe. Lives until gRPC is done with the call and the runtime has let
// go of it.
class SessionReactor final
    : public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>,
      public SessionStream {
 public:
  // Starts a session by `context`'s call, whose caller is `identity` (IdentityOf), with
  // `runtime`; it, `acceptor` and `open_calls` outlive the server. gRPC owns the result.
  static SessionReactor* Start(grpc::CallbackServerContext* context,
                               CoordinatorRuntime& runtime, Acceptor& acceptor,
                               std::optional<Identity> identity,
                               OpenCalls& open_calls);

  void Send(v1::SessionResponse message) override EXCLUDES(mutex_);
  void Close(const absl::Status& status) override EXCLUDES(mutex_);
  void ReadNext() override EXCLUDES(mutex_);

 private:
  SessionReactor(grpc::CallbackServerContext* context,
                 CoordinatorRuntime& runtime, Acceptor& acceptor,
                 std::optional<Identity> identity, std::string peer)
      : context_(context),
        call_(context),
        runtime_(runtime),
        acceptor_(acceptor),
        identity_(std::move(identity)),
        peer_(std::move(peer)),
        observed_host_(HostOfPeer(peer_)) {}

  void OnReadDone(bool ok) override EXCLUDES(mutex_);
  void OnWriteDone(bool ok) override EXCLUDES(mutex_);
  void OnCancel() override EXCLUDES(mutex_);
  void OnDone() override EXCLUDES(mutex_);

  // Starts the next write, or finishes, if it is time.
  void Advance() EXCLUDES(mutex_);
  // Ends the stream with `status`, and tells the runtime that it is over.
  void End(const absl::Status& status) EXCLUDES(mutex_);
  // Breaks the connection, and tells the runtime that it broke.
  void Cut(const std::string& detail) EXCLUDES(mutex_);
  // The message as the core's event; a hello only in a role that the caller has.
  absl::StatusOr<EventBody> Parse() EXCLUDES(mutex_);
  // Tells the runtime, once, that the stream is over.
  void ReportEnd(const std::string& detail) EXCLUDES(mutex_);

  // What the role of its session demands of the caller.
  absl::Status CheckRole(const Identity& caller) const EXCLUDES(mutex_);

  grpc::CallbackServerContext* const context_;  // only for reactions
  CallContext call_;
  CoordinatorRuntime& runtime_;
  Acceptor& acceptor_;
  const std::optional<Identity> identity_;
  const std::string peer_;
  const std::string observed_host_;
  SessionId id_ = 0;
  // Until OnDone.
  std::shared_ptr<SessionReactor> self_;
  std::unique_ptr<OpenCalls::Place> place_;

  // gRPC's until the operation is done.
  v1::SessionRequest incoming_;
  v1::SessionResponse outgoing_;

  mutable Mutex mutex_;
  std::optional<v1::Role> role_ GUARDED_BY(mutex_);  // as its hello said
  std::deque<v1::SessionResponse> queue_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ GUARDED_BY(mutex_);
  bool is_writing_ GUARDED_BY(mutex_) = false;
  bool is_finished_ GUARDED_BY(mutex_) = false;
  bool is_end_reported_ GUARDED_BY(mutex_) = false;
  // Its connection counts as a member's from the welcome to OnDone.
  bool is_admitted_ GUARDED_BY(mutex_) = false;
  bool is_done_ GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_REACTOR_H_
