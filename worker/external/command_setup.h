// CommandSetup: a job's command, found on this host and ready to be started.
#ifndef RINGMASTER_WORKER_EXTERNAL_COMMAND_SETUP_H_
#define RINGMASTER_WORKER_EXTERNAL_COMMAND_SETUP_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_roots.h"
#include "common/transport/unique_fd.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

struct CommandSetup {
  std::string program;  // a path, from `directory` on if it is relative
  std::vector<std::string> arguments;  // with the program's name first
  std::map<std::string, std::string> variables;  // the job's, also its secrets
  UniqueFd directory;  // not open: where this process is
};

// Finds the program, opens the working directory and reads the secrets of
// `program`, which is valid. Its paths are opened beneath `files`; the program
// itself is not, since it may be any that this process's user may run.
// Errors name the field and what is wrong with it on this host:
//   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE
[[nodiscard]] absl::StatusOr<CommandSetup> SetUpCommand(
    const v1::ExternalProgram& program, const FileRoots& files);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_COMMAND_SETUP_H_
