// The process of a member of the pool, a worker or a parameter server: it takes
// flags, runs one process or several (a supervisor's children), and returns an
// exit code.
//
// Thread-safety: the main thread, once.
#ifndef RINGMASTER_WORKER_PROCESS_MEMBER_PROCESS_H_
#define RINGMASTER_WORKER_PROCESS_MEMBER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "common/transport/tcp.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/member/job_runner.h"
#include "worker/worker_flags.h"

namespace ringmaster {

// The differences between one kind of member and another.
struct MemberProgram {
  std::string name;  // of the program: "worker"
  WorkerRole role = WorkerRole::kWorker;
  std::string help;  // what it does, and its exit codes
  void (*add_flags)(FlagSet& set, WorkerFlags& flags) = nullptr;
  // True if it measures the costs of collectives here before it joins.
  bool measures_costs = true;
  // Makes the slot's runner, which runs the jobs of the pool; the listener
  // outlives it.
  std::function<absl::StatusOr<std::unique_ptr<JobRunner>>(
      const Listener& listener, const WorkerFlags& flags, int slot)>
      make_runner;
};

// The whole of main: returns the exit code. Errors are a line on stderr.
[[nodiscard]] int RunMember(const MemberProgram& program, int argc,
                            char** argv);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PROCESS_MEMBER_PROCESS_H_
