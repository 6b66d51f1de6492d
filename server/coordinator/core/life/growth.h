// Growth: idle workers join a running job, and idle parameter servers one that
// has fewer than it asked for. Holders of shards leave it (hand_over.h) by the
// same pause, and so do members that it lets go (let_go.h).
//
// Once no worker has joined for Config::join_settle, the workers are asked to
// prepare (rehearsal.h); once they are ready, the members are asked to pause.
// They end at the same step and report it as after a halt; from the
// first such report on it is a halt, with a verdict that blames nobody, and the
// workers join as newcomers of the next generation. Attempts whose newcomers
// are lost before a step is committed back off. A job of commands does not grow; it
// pauses only to give way, and its commands are asked to end then.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_GROWTH_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_GROWTH_H_

#include <vector>

#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Sets when `job`, if it is RUNNING, is to pause. Called whenever that may have
// changed. `gifts` are those of the state as it is (let_go.h).
void ArmGrowth(Turn& turn, Job& job, const std::vector<Gift>& gifts);

// Lets workers go that prepare to join a job which trains and has no room for them any
// more.
void EndNeedlessRehearsals(Turn& turn);

// Returns how long to wait for a pause: as long as a step may take, or as detecting a
// dead worker takes if that is longer. Commands that end get more as long as their
// workers make progress.
[[nodiscard]] absl::Duration PausePatience(const Job& job,
                                           const Config& config);

// Asks the members to pause, unless this is not the time for it.
void OnGrowthDeadline(Turn& turn, Job& job);

// Returns the verdict of the halt of the other members, once the first has
// paused.
[[nodiscard]] v1::Verdict VerdictOnPause(const Turn& turn, const Job& job);

// No member has paused in time: halts them instead.
void OnPauseDeadline(Turn& turn, Job& job);

// A halt of `job` begins. If its generation has newcomers and has not committed
// a step, the next attempt to grow waits longer than the one before.
void NoteGrowthHalted(const Turn& turn, Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_GROWTH_H_
