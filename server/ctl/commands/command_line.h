// RunCommandLine: ringctl from its arguments to its exit code.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_COMMAND_LINE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_COMMAND_LINE_H_

#include <span>
#include <string>

#include "common/clock/clock.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

// Parses `args` (without the program's name), runs the command and returns the
// exit code (common/status/exit_code.h). An error is one line on the console's
// stderr: "error: " and what to do.
//
// Signals are taken while it runs, so Interrupts::Block must have been called,
// in every thread; one that ends the program at once calls _exit.
[[nodiscard]] int RunCommandLine(std::span<const std::string> args,
                                 Console& console, Clock& clock);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_COMMAND_LINE_H_
