// The end of a worker's child process, and the exit code that follows from it.
// Pure.
#ifndef RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_
#define RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_

#include <cstdint>
#include <span>
#include <string>

#include "common/status/exit_code.h"

namespace ringmaster {

// The kinds of ends, which decide about another start. The argument of all
// functions is a wait status (see wait(2)) of a child that ended.
enum class ChildEnd {
  kWanted,     // done, or stopped by SIGTERM or SIGINT
  kPermanent,  // exit codes 2 to 5: something must be corrected first
  kCrash,      // the program's own fault: 1, an unknown exit code, SIGSEGV, ...
  kFromOutside,  // 138, SIGKILL and the like
};
[[nodiscard]] ChildEnd KindOfChildEnd(int wait_status);

// Returns the exit code for an end. By signal: 143 for SIGTERM and SIGINT, 1
// for a crash, 138 for a signal from outside, such as that of the kernel's
// out-of-memory killer.
[[nodiscard]] ExitCode ChildExitCode(int wait_status);

// Returns the text for the environment of the next process in the slot, which
// reports it to the coordinator: "PID:EXIT_CODE:SIGNAL", the value of
// kPredecessorVariable that ParsePredecessor in
// worker/agent/rpc/worker_identity.h reads. The exit code is 0 if a signal
// ended it, the signal 0 if none did.
[[nodiscard]] std::string PredecessorText(int64_t pid, int wait_status);

// "exit code 2", "signal 9 (Killed)".
[[nodiscard]] std::string DescribeChildExit(int wait_status);

// Returns the worst of `codes`: the smallest except 0 (permanent ones come
// first, then 138 and 143); 0 if there is none.
[[nodiscard]] ExitCode WorstExitCode(std::span<const ExitCode> codes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_CHILD_EXIT_H_
