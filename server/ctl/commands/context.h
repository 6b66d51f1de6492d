// The context that every command of ringctl is given.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CONTEXT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CONTEXT_H_

#include "common/clock/clock.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

// Commands return the exit code of the process, or a status for
// "error: MESSAGE" and ExitCodeOf.
struct CommandContext {
  Console& console;
  Clock& clock;
  Client& client;
  OutputFormat format = OutputFormat::kTable;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CONTEXT_H_
