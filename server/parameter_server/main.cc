// The `parameter_server` binary.
#include <memory>

#include "common/clock/clock.h"
#include "server/parameter_server/shard_host.h"
#include "server/parameter_server/shard_trainer.h"
#include "worker/process/member_process.h"
#include "worker/worker_flags.h"

namespace ringmaster {
namespace {

std::unique_ptr<Trainer> MakeTrainer(const Listener& listener,
                                     const WorkerFlags& /*flags*/) {
  return MakeShardTrainer(Clock::Real(), listener,
                          MakeShardHost(Clock::Real()));
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  return ringmaster::RunMember(
      {.name = "parameter_server",
       .role = ringmaster::WorkerRole::kParameterServer,
       .help = "Joins a coordinator's pool and holds a part of the parameters "
               "of the jobs that name parameter servers, one job after "
               "another, until it is stopped. Ends with 143 after SIGTERM or "
               "SIGINT, with 138 where the coordinator cannot be reached, with "
               "2 on a wrong flag, a name in use or another service's address. "
               "With several slots the exit code is the worst of theirs.",
       .add_flags = ringmaster::AddParameterServerFlags,
       .measures_costs = false,
       .make_trainer = ringmaster::MakeTrainer},
      argc, argv);
}
