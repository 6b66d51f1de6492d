// Agent runs a worker process: it joins the coordinator, trains what it is
// assigned, and leaves.
//
// Drives an AgentCore, which decides, with a session, a trainer thread and a
// timer, which act. Thread-safe.
// Ownership: the clock and the trainer must outlive it.
// Example:
//   Agent agent(Clock::Real(), *trainer, std::move(options));
//   ... agent.Terminate("SIGTERM") from the signal thread ...
//   const Agent::End end = agent.AwaitEnd();
#ifndef RINGMASTER_WORKER_AGENT_AGENT_H_
#define RINGMASTER_WORKER_AGENT_AGENT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/exit_code.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/member/job_runner.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace ringmaster {

struct AgentOptions {
  std::string coordinator;  // HOST:PORT
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  WorkerIdentity identity;
  // See AgentConfig in worker/agent/core/agent_core.h.
  absl::Duration coordinator_timeout = absl::Seconds(60);
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration abort_timeout = absl::Seconds(30);
  absl::Duration answer_timeout = absl::Seconds(5);
  absl::Duration name_wait = absl::ZeroDuration();
  int max_jobs = 0;
  absl::Duration signal_window = absl::Milliseconds(500);
  // Called when a session with the coordinator begins and when it ends, on a
  // thread of the agent's; must not block. May be empty.
  std::function<void(bool is_attached)> on_attached;
};

class Agent {
 public:
  struct End {
    ExitCode code = ExitCode::kDone;
    std::string message;
    // The trainer did not return in time, or was not waited for: this object
    // must not be destroyed, and the process must end with _exit.
    bool is_trainer_stuck = false;
  };

  // Begins to join.
  Agent(Clock& clock, JobRunner& trainer, AgentOptions options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Asks the worker to leave: in an orderly way the first time, at once the
  // second. `signal` is the name of the signal.
  void Terminate(std::string_view signal);

  // Returns true if the agent's thread answers within `patience`. From any
  // other thread, while the agent lives.
  [[nodiscard]] bool Answers(absl::Duration patience);

  // Waits until the worker has ended, without a limit.
  [[nodiscard]] End AwaitEnd();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_AGENT_H_
