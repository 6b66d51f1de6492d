// Notes the progress of a generation, and finds the member that holds it up.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROGRESS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROGRESS_H_

#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// A member made progress, in whatever phase it is in.
void NoteProgress(const Turn& turn, Job& job);

// Takes the signs of progress in `beat`, and learns from how long they took;
// `worker`, which `member` is, is as it was before the beat. In a standstill
// all members' beats together trigger one check (OnProgressDeadline) per beat
// interval, not one each.
void NoteSigns(const Turn& turn, Job& job, Worker& worker, Member& member,
               const BeatReceived& beat);

// Returns when to check `job` for a lack of progress; InfiniteFuture in states
// that have another bound. As long as members send beats, the check is at most
// a beat interval late.
[[nodiscard]] MonotonicTime ProgressDeadline(const Job& job);

// Returns how long `job` may make no progress now: as learned (ProgressModel)
// for the phases of the members that may be at work, namely those that wait for
// nobody; at most the progress cap. If a broken link may be the cause (a member
// is connecting, or all wait for one another), its ends get time to notice it
// first: until then it is not visible from outside who is stuck. A wait for a lost
// member is in vain, and ends after the failure budget.
[[nodiscard]] absl::Duration ProgressPatience(const State& state,
                                              const Job& job,
                                              const Config& config);

// Evicts the stuck member if there has been no progress for longer than the
// patience.
void OnProgressDeadline(Turn& turn, Job& job);

// Returns, by rank, whom each member waits for that has made no progress for
// `least`: -1 if for nobody, or if a worker that waits for nobody, and so is at
// work, holds it up, directly or through others. What is left are circles, and
// waits for servers: a broken link may be the cause.
[[nodiscard]] std::vector<int> WaitsInVain(const Turn& turn, const Job& job,
                                           absl::Duration least);

// Returns the member to blame when nobody makes progress: of the members that
// have not prepared (PREPARING) or finished, those that are not themselves
// waiting for a peer; if all wait, those whose waits form a circle. Among
// these, one that waits for a worker which has gone further, then the worker with
// the lowest collective (a server makes none), then the one that most others wait
// for, directly or indirectly, then the lowest rank. (A member that computes for
// ever waits for nobody, and all others wait for it. A frozen one sends no beats,
// so its lease runs out.) Requires a member that is not lost.
[[nodiscard]] const Member& FindStuckMember(const State& state, const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROGRESS_H_
