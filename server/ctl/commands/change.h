// `ringctl priority`, `suspend` and `resume`: changing a job that has not ended.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CHANGE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CHANGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct ChangeOptions {
  std::string job;  // its id or name
  std::string priority;
  std::string reason;
};

// Adds the commands; `options` must outlive the parsing.
void AddChangeCommands(FlagSet& flags, ChangeOptions& options);

// Returns true of "priority", "suspend" and "resume".
[[nodiscard]] bool IsChange(std::string_view command);

// `command`: one of these. Shows the job.
//   INVALID_ARGUMENT  the priority is no number
[[nodiscard]] absl::StatusOr<int> RunChange(const CommandContext& context,
                                            const std::string& command,
                                            const ChangeOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CHANGE_H_
