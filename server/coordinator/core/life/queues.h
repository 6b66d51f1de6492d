// Queues as operators define them, and as a journal tells of them.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUEUES_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUEUES_H_

#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Journals what the queues are to be; they are, and the operator gets an answer, once
// that is durable. A file that says what is so already changes nothing.
void OnSetQueues(Turn& turn, const QueuesRequested& request);
void OnQueuesDurable(Turn& turn, const QueuesChangedRecord& record,
                     const std::vector<RequestToken>& waiting);
void ApplyQueues(State& state, const QueuesChangedRecord& record);

// Journals what queues have used, where that was long ago, and notes when their turns
// are to be looked at again.
void SaveUse(Turn& turn);

// OK unless the queue of a job of those terms never has as many workers as it needs:
// INVALID_ARGUMENT.
[[nodiscard]] absl::Status FitsQueue(const State& state, const JobTerms& terms);

// OK if their queue takes one more job of those terms, from `caller`.
//   NOT_FOUND           there is none of that name; lists them
//   PERMISSION_DENIED   it is not for the caller
//   INVALID_ARGUMENT    it never has as many workers as the job needs
//   RESOURCE_EXHAUSTED  it has as many of the caller's jobs as it takes
[[nodiscard]] absl::Status MayEnter(const Turn& turn, const JobTerms& terms,
                                    const Caller& caller);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUEUES_H_
