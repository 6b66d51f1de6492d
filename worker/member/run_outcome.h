// The outcome of a generation on a rank and, if it is an error, the rank at
// fault. Pure.
#ifndef RINGMASTER_WORKER_MEMBER_RUN_OUTCOME_H_
#define RINGMASTER_WORKER_MEMBER_RUN_OUTCOME_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/parameter_server/message.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

// A rank's situation when its generation ended.
struct RunEndPlace {
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  int members = 1;       // of the generation
  int blamed_rank = -1;  // the peer that communication failed on; -1: unknown
  bool is_cancelled = false;  // Abort was called
};

// Returns the kind of outcome of a generation that ended without an error.
[[nodiscard]] RunOutcome::Kind KindOf(DoneKind end);

// Returns true if `status` is an error of communication: some peer's, or an
// abort's.
[[nodiscard]] bool IsOfPeers(const absl::Status& status);

// Returns the error that `rank` held another state than this rank, and nobody
// can tell which is right; one of peers.
[[nodiscard]] absl::Status OtherStateError(std::string_view message, int rank);

// Requires an error.
[[nodiscard]] RunOutcome FailedOutcome(const absl::Status& status,
                                       const RunEndPlace& place);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_RUN_OUTCOME_H_
