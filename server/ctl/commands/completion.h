// `ringctl completion`: what a shell completes a command line with.
//
// Made from the same table as --help, so that no command or flag is forgotten.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_COMPLETION_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/flag_help.h"
#include "common/config/flags.h"

namespace ringmaster::ctl {

void AddCompletionCommand(FlagSet& flags, std::string& shell);

// The script that teaches `shell` the command line of `pages` (FlagSet::Pages).
// Pure.
//   INVALID_ARGUMENT  neither bash nor zsh
[[nodiscard]] absl::StatusOr<std::string> CompletionScript(
    const std::string& shell, const std::vector<HelpPage>& pages);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_COMPLETION_H_
