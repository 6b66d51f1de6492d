// EndProcess is for a device that only a new process can use again.
#ifndef RINGMASTER_WORKER_MEMBER_END_PROCESS_H_
#define RINGMASTER_WORKER_MEMBER_END_PROCESS_H_

#include "absl/status/status.h"

namespace ringmaster {

// Logs `why` as `event` and ends the process at once, with
// ExitCode::kRetryElsewhere: destructors would wait for the device. The
// coordinator sees the broken stream, and a supervisor starts another process.
[[noreturn]] void EndProcess(const char* event, const absl::Status& why);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_END_PROCESS_H_
