// `ringctl state` backs up and restores a coordinator's state on this machine's
// disks; it asks no coordinator.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_STATE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_STATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "common/files/new_file.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

struct StateCommandOptions {
  std::string state_dir;
  std::string backup;  // the file that is written, or read
  bool may_replace = false;
};

// Adds the command with its commands; `options` must outlive the parsing.
void AddStateCommand(FlagSet& flags, StateCommandOptions& options);

// The file that `command`, "state backup" or "state restore", writes.
[[nodiscard]] std::string StateFileOf(const std::string& command,
                                      const StateCommandOptions& options);

// Runs `command`, which writes `file`. Errors are those of
// server/coordinator/journal/backup.h.
[[nodiscard]] absl::StatusOr<int> RunState(const std::string& command,
                                           const StateCommandOptions& options,
                                           NewFile& file, OutputFormat format,
                                           Console& console);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_STATE_H_
