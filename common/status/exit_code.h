// ExitCode: the one table of process exit codes, shared by every binary and by
// docs/operations.md.
//
// Codes 1-5 are permanent (the same process, started again, would end the same
// way; a supervisor tries a bug, 1, a few times all the same), 138 means that
// another attempt, perhaps on another host, can succeed, and 143 is a requested
// stop. Kubernetes' podFailurePolicy and
// Slurm's requeue rules can be written against them.
#ifndef RINGMASTER_COMMON_STATUS_EXIT_CODE_H_
#define RINGMASTER_COMMON_STATUS_EXIT_CODE_H_

#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,
  kUsage = 2,
  kPlanMismatch = 3,
  kCheckpointCorrupt = 4,
  kUnreadable = 5,
  kRetryElsewhere = 138,
  kStopped = 143,
};

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};

// Every code with its meaning, in the order of the numbers.
inline constexpr std::array<ExitCodeMeaning, 8> kExitCodes = {{
    {ExitCode::kDone, "done"},
    {ExitCode::kInternal, "internal error: a bug of ours; the log says where"},
    {ExitCode::kUsage,
     "usage or job spec: a flag, field or file that must be corrected"},
    {ExitCode::kPlanMismatch, "plan, data or state differ between ranks"},
    {ExitCode::kCheckpointCorrupt, "checkpoint or journal damaged"},
    {ExitCode::kUnreadable, "data unreadable: missing, empty or not permitted"},
    {ExitCode::kRetryElsewhere,
     "retry elsewhere: lost the coordinator, a peer or this host's resources"},
    {ExitCode::kStopped, "stopped after SIGTERM or SIGINT"},
}};

// The exit code that belongs to `status`: an explicit one set with
// WithExitCode, else by its code (INVALID_ARGUMENT and the like 2, DATA_LOSS 4,
// UNAVAILABLE, ABORTED and DEADLINE_EXCEEDED 138, CANCELLED 143, other 1).
[[nodiscard]] ExitCode ExitCodeOf(const absl::Status& status);

// Attaches `code` to `status`, where the status code alone would say too
// little.
[[nodiscard]] absl::Status WithExitCode(absl::Status status, ExitCode code);

// Marks `status` as a failure of the job and not of the worker that meets it.
[[nodiscard]] absl::Status OfJob(absl::Status status);
[[nodiscard]] bool IsOfJob(const absl::Status& status);

// The table as text for --help, one line a code.
[[nodiscard]] std::string ExitCodeTable();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_STATUS_EXIT_CODE_H_
