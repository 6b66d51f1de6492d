// FakeCoordinator: a CoordinatorService on a port of its own; a test plays its
// side of the sessions.
//
// One session at a time is of interest: the newest. Thread-safe.
#ifndef RINGMASTER_WORKER_AGENT_TESTING_FAKE_COORDINATOR_H_
#define RINGMASTER_WORKER_AGENT_TESTING_FAKE_COORDINATOR_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ringmaster/v1/coordinator_service.pb.h"

namespace ringmaster {

class FakeCoordinator {
 public:
  struct Options {
    int port = 0;               // 0: any
    bool answers_hello = true;  // with a welcome
    bool has_service = true;    // false: calls are UNIMPLEMENTED
    int beat_interval_ms = 20;
    int protocol = 1;
  };
  explicit FakeCoordinator(const Options& options);
  FakeCoordinator() : FakeCoordinator(Options()) {}
  // Ends all sessions by force, as a crash would.
  ~FakeCoordinator();

  [[nodiscard]] int port() const;
  [[nodiscard]] std::string address() const;

  // From now on sessions are refused with `status`, in answer to their hello.
  void RefuseSessions(absl::Status status);

  // The next message of kind `kind` that has not been taken yet, whatever
  // session it came by; messages of other kinds before it are dropped. Nothing
  // after 10 s.
  [[nodiscard]] std::optional<v1::SessionRequest> Take(
      v1::SessionRequest::MessageCase kind);

  // Sends to the newest session.
  void Send(const v1::SessionResponse& response);
  void SendAssignment(int64_t generation, int rank = 0, int world_size = 1,
                      int64_t resume_step = 0);
  void SendStart(int64_t generation);
  void SendHalt(int64_t generation);
  void SendRelease(int64_t generation);

  // Ends the newest session with `status`.
  void EndSession(const absl::Status& status);
  // Waits until the newest session's worker has closed its side, or the stream
  // broke; false after 10 s.
  [[nodiscard]] bool AwaitHalfClose();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_TESTING_FAKE_COORDINATOR_H_
