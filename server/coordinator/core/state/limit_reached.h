// LimitReached is how the coordinator refuses what is beyond one of its limits.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_LIMIT_REACHED_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_LIMIT_REACHED_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster::coordinator {

// RESOURCE_EXHAUSTED: "the coordinator has 1000 jobs that have not ended, as
// many as --max_queued_jobs allows; try again later". `what` are the things
// that are limited, `flag` the one that sets the limit, without dashes.
[[nodiscard]] absl::Status LimitReached(int64_t limit, std::string_view what,
                                        std::string_view flag);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_LIMIT_REACHED_H_
