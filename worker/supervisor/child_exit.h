// How a worker's child process ended, and what that makes of the whole. Pure.
#ifndef RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_
#define RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_

#include <cstdint>
#include <span>
#include <string>

#include "common/status/exit_code.h"

namespace ringmaster {

// What an end says about another start. The argument of all functions is a wait
// status (see wait(2)) of a child that ended.
enum class ChildEnd {
  kWanted,     // done, or stopped by SIGTERM or SIGINT
  kPermanent,  // exit codes 2 to 5: something must be corrected first
  kCrash,      // the program's own fault: 1, an unknown exit code, SIGSEGV, ...
  kFromOutside,  // 138, SIGKILL and the like
};
[[nodiscard]] ChildEnd KindOfChildEnd(int wait_status);

// The exit code for an end. By signal: 143 for SIGTERM and SIGINT, 1 for a
// crash, 138 for what came from outside, such as the kernel's out-of-memory
// killer.
[[nodiscard]] ExitCode ChildExitCode(int wait_status);

// For the environment of the next process in the slot, which tells the
// coordinator: "PID:EXIT_CODE:SIGNAL", the value of kPredecessorVariable that
// ParsePredecessor in worker/agent/rpc/worker_identity.h reads. The exit code is
// 0 if a signal ended it, the signal 0 if none did.
[[nodiscard]] std::string PredecessorText(int64_t pid, int wait_status);

// "exit code 2", "signal 9 (Killed)".
[[nodiscard]] std::string DescribeChildExit(int wait_status);

// The worst of `codes`: the smallest but 0 (permanent ones come first, then 138
// and 143); 0 if there is none.
[[nodiscard]] ExitCode WorstExitCode(std::span<const ExitCode> codes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_
