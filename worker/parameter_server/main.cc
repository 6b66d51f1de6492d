// The `parameter_server` binary.
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "common/access/access_control.h"
#include "common/clock/clock.h"
#include "common/config/address.h"
#include "common/credentials/credentials.h"
#include "common/credentials/peer_trust.h"
#include "common/credentials/tls_watch.h"
#include "common/logging/logging.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/parameter_server/rpc/parameter_endpoint.h"
#include "worker/parameter_server/shard_host.h"
#include "worker/parameter_server/shard_runner.h"
#include "worker/process/member_process.h"
#include "worker/supervisor/slot.h"
#include "worker/worker_flags.h"

namespace ringmaster {
namespace {

absl::StatusOr<std::unique_ptr<ParameterEndpoint>> StartEndpoint(
    ParameterStore& store, const WorkerFlags& flags, int slot) {
  ASSIGN_OR_RETURN(const HostPort base, ParseHostPort(flags.listen));
  ASSIGN_OR_RETURN(const HostPort address, SlotAddress(base, slot));
  ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(flags.credentials,
                                                           address.ToString()));
  std::shared_ptr<const AccessControl> access;
  if (HasTlsFlag(flags.credentials)) {
    ASSIGN_OR_RETURN(std::shared_ptr<const TlsWatch> files,
                     FollowTlsFiles(flags.credentials));
    access = std::make_shared<AccessControl>(
        ParameterMethods(), std::nullopt, flags.trust_domain,
        std::make_shared<PeerTrust>(std::move(files)));
  }
  absl::StatusOr<std::unique_ptr<ParameterEndpoint>> endpoint =
      ParameterEndpoint::Start(store, Clock::Real(), address,
                               std::move(credentials), std::move(access));
  if (!endpoint.ok()) {
    return WithExitCode(Annotate(endpoint.status(), "--listen"),
                        ExitCode::kUsage);
  }
  LogEvent(LogLevel::kInfo, "parameters.served",
           {{"address", (*endpoint)->address().ToString()}});
  return endpoint;
}

absl::StatusOr<std::unique_ptr<JobRunner>> MakeRunner(const Listener& listener,
                                                      const WorkerFlags& flags,
                                                      int slot) {
  std::unique_ptr<StoringShardHost> host = MakeShardHost(Clock::Real());
  std::unique_ptr<ParameterEndpoint> endpoint;
  if (!flags.listen.empty()) {
    ASSIGN_OR_RETURN(endpoint, StartEndpoint(*host, flags, slot));
  }
  return MakeShardRunner(Clock::Real(), listener, std::move(host),
                         std::move(endpoint));
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
       .make_runner = ringmaster::MakeRunner},
      argc, argv);
}
