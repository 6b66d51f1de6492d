// Jobs as users change them: submitted, queued, cancelled.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_QUEUE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_QUEUE_H_

#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Gives the job an id and journals it; it exists, and the user gets an answer,
// once that is durable. A request_id seen before returns that job instead.
void OnSubmit(Turn& turn, const SubmitRequested& submit);
void OnJobDurable(Turn& turn, const JobCreatedRecord& record,
                  const std::vector<RequestToken>& waiting);

// Cancels a job: at once if no member works for it, otherwise through STOPPING
// or HALTING. Members are told at once, the user once it is durable.
void OnCancel(Turn& turn, const CancelRequested& cancel);

// OK if `caller` may change `job`, or a job may have that priority as `caller` wants.
//   PERMISSION_DENIED/PERMISSION_DENIED
[[nodiscard]] absl::Status MayChange(const Caller& caller, const Job& job);
[[nodiscard]] absl::Status MayHavePriority(const Caller& caller, int priority);

// The job that a JobCreatedRecord makes.
[[nodiscard]] Job JobOf(const JobCreatedRecord& record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_QUEUE_H_
