// Forming a generation: from idle workers or survivors to members that train.
//
// gather -> FormGeneration -> (durable) -> assignments -> prepared -> start.
// From FormGeneration until the record is durable the job is "forming":
// PREPARING with is_assigned false; no member has heard of the generation.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_FORMATION_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_FORMATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Says why `job` is in its state, unless it says so already.
void SetMessage(Turn& turn, Job& job, std::string message);

[[nodiscard]] bool IsForming(const Job& job);

// Forms the next generation of `job`, which is GATHERING, if there are workers.
void TryGather(Turn& turn, Job& job);

// A generation to be formed.
struct Formation {
  // In the order of ranks, parameter servers after workers. Those that hold no
  // step are newcomers.
  std::vector<const Worker*> workers;
  // The step from which it resumes.
  int64_t resume_step = 0;
  // No member holds the steps that were made: it starts from the beginning.
  bool is_rollback = false;
  // It makes no step, because members leave.
  Closing closing = Closing::kNone;
  // It continues with the shards that members hold, as of this step (shards.h).
  std::optional<int64_t> shard_step = std::nullopt;
};

// Requires a working journal.
void FormGeneration(Turn& turn, Job& job, const Formation& formation);

// Gives up a first generation that is forming, and gathers again.
void AbandonFormation(Turn& turn, Job& job);

void OnGenerationDurable(Turn& turn, const GenerationFormedRecord& record);
void OnGenerationNotDurable(Turn& turn, const GenerationFormedRecord& record);

// Tells `member` its place in the generation of `job`.
void SendAssignmentTo(Turn& turn, const Job& job, const Member& member);

void OnPrepared(Turn& turn, Worker& worker, const PreparedReceived& prepared);

// Clears every deadline of `job` except those of progress.
void ClearDeadlines(Job& job);

// Forgets the reports on links of a generation that is over, and what was probed
// because of them: both speak of its ranks.
void ForgetSuspicions(Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_FORMATION_H_
