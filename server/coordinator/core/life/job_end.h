// The end of a job: decided, made durable, then announced.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_END_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_END_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// The end of a job: its state, exit code and reason.
struct End {
  v1::JobState state = v1::JOB_STATE_FAILED;
  int exit_code = 0;
  std::string message;
  std::optional<uint64_t> parameters_hash = std::nullopt;
};

// Decides that `job` ends; `waiting` are answered once that is durable. Nothing
// but OnEndDurable changes the job from here on.
void DecideEnd(Turn& turn, Job& job, End end,
               std::vector<RequestToken> waiting = {});

// Carries out the end: answers users, returns members to the pool, and lets the
// next job gather.
void OnEndDurable(Turn& turn, const JobEndedRecord& record,
                  const std::vector<RequestToken>& waiting);

// The end has to wait for the journal to work again: the users that wait for it
// are told so.
void OnEndNotDurable(Turn& turn, Job& job);

// FAILED_PRECONDITION/JOB_ALREADY_ENDED: `job` has ended, or is about to.
[[nodiscard]] absl::Status AlreadyEnded(const Job& job);

// Takes `worker` out of its job and makes it idle, unless it is draining.
void ReturnToPool(Turn& turn, Worker& worker);

// Returns `worker` to the pool and, if it has heard of its generation, tells it
// `why`; `state` is its job's, and `exit_code` too if the job has failed.
void Release(Turn& turn, Worker& worker, v1::JobState state,
             const std::string& why, int exit_code = 0);

// Forgets the jobs that ended first, so that at most `max_ended_jobs` ended
// ones are left.
void PruneEndedJobs(State& state, int max_ended_jobs);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_END_H_
