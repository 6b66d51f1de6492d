// The coordinator's limits on what others make it keep, and how it refuses what
// is beyond them. docs/operations.md has them all.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_LIMITS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_LIMITS_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster::coordinator {

struct Limits {
  int queued_jobs = 1000;    // that have not ended, the running one included
  int sessions = 10'000;     // of workers and parameter servers
  int watches = 1000;        // streams of WatchJob and WatchStatus
  int waiting_calls = 4096;  // for their turn, and as many for the disk
  int events = 10'000;       // the oldest are dropped
  int gatherings = 32;       // questions to workers, for traces and logs
};

// RESOURCE_EXHAUSTED: "the coordinator has 1000 jobs that have not ended, as
// many as --max_queued_jobs allows; try again later". `what` are the things
// that are limited, `flag` the one that sets the limit, without dashes.
[[nodiscard]] absl::Status LimitReached(int64_t limit, std::string_view what,
                                        std::string_view flag);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_LIMITS_H_
