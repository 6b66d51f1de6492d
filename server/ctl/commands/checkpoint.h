// `ringctl checkpoint` lists, verifies, removes and exports checkpoints on this machine's
// disks, without a coordinator.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CHECKPOINT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CHECKPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

struct CheckpointCommandOptions {
  std::string path;  // of a checkpoint, or of a directory of checkpoints
  bool is_forced = false;
  std::string out;  // where export writes
  std::string dtype = "float32";
};

// Adds the command with its commands; `options` must outlive the parsing.
void AddCheckpointCommand(FlagSet& flags, CheckpointCommandOptions& options);

// Runs "checkpoint ls", "checkpoint verify", "checkpoint rm" or "checkpoint export". It may take as long
// as the disk does to read a checkpoint. Errors have these exit codes:
//   kUsage       the path is of another kind than the command takes, or the
//                checkpoint is one to keep
//   kUnreadable  the path is not there, or not permitted
//   kCheckpointCorrupt  what is to be exported is damaged
// What ls and verify find is no error: they print it, and verify returns the exit
// code of the worst.
[[nodiscard]] absl::StatusOr<int> RunCheckpoint(
    const std::string& command, const CheckpointCommandOptions& options,
    OutputFormat format, Console& console);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CHECKPOINT_H_
