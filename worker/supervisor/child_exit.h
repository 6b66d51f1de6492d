// How a worker's child process ended, and what that makes of the whole. Pure.
#ifndef RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_
#define RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_

#include <span>
#include <string>

#include "common/status/exit_code.h"

namespace ringmaster {

// The exit code for a wait status (see wait(2)) of a child that ended. By
// signal: 143 for a stop that was asked for, 1 for a crash, 138 for what came
// from outside, such as the kernel's out-of-memory killer.
[[nodiscard]] ExitCode ChildExitCode(int wait_status, bool was_asked_to_stop);

// "exit code 2", "signal 9 (Killed)".
[[nodiscard]] std::string DescribeChildExit(int wait_status);

// The worst of `codes`: the smallest but 0 (permanent ones come first, then 138
// and 143); 0 if there is none.
[[nodiscard]] ExitCode WorstExitCode(std::span<const ExitCode> codes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_
