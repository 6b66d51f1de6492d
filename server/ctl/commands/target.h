// Target: what a command is about that takes a worker or a job by its name.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_TARGET_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_TARGET_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/ctl/client/client.h"

namespace ringmaster::ctl {

struct Target {
  enum class Kind { kCoordinator, kWorker, kJob };
  Kind kind = Kind::kJob;
  // A worker's name, or a job's id or name.
  std::string name;
};

// For the help of such a command.
inline constexpr char kTargetHelp[] =
    "Name of a worker or parameter server, or id or name of a job. worker/NAME "
    "and job/NAME say which is meant, where both have the name.";

// Reads "worker/NAME" and "job/NAME", and looks up what a plain NAME is. A name
// that nobody has now is taken for that of a worker that is gone.
//   INVALID_ARGUMENT     nothing is named
//   FAILED_PRECONDITION  a worker and a job have that name; or, of the
//                        coordinator, several live jobs do
[[nodiscard]] absl::StatusOr<Target> FindTarget(Client& client,
                                                const std::string& text);

// There is nothing of that name.
[[nodiscard]] absl::Status NoSuchTarget(const std::string& name);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_TARGET_H_
