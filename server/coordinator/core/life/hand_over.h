// Handing over: members that are asked to leave go only once what they hold is
// held by others, or is in a checkpoint.
//
// A leaver stays a member, halted like the others, until it is released. Of a
// job whose workers all hold the whole state:
//   others hold it too                  it is released at the first halt
//   there are idle workers, or members  the next generation makes no step: they
//   without the state                   copy it, and all halt again. If they are not
//                                       done while there is still time for a
//                                       checkpoint, the leavers write one first
//   nobody, but the job keeps           the next generation makes no step: the
//   checkpoints                         leavers write one, and halt again
//   nobody, and no checkpoints          the job waits for a worker; the leaver
//                                       is told so
// A checkpoint of the step at which the slowest of workers with clocks of their own
// is may lack updates that others made beyond it, and does not let anybody go then
// (docs/decisions/0060).
// If the job gives way (let_go.h), all leave, and nobody takes over.
// If the state is in shards (shards.h), the members are asked to pause (growth.h)
// and the leaver is given no shards in the next generation, but stays if others
// need its copies, which they take as it begins. Once it has made a step, the
// members pause again; it makes none if leavers and successors together are
// more than `max`. Where nobody could take over, the same holds as above.
// Nobody waits where there is nothing to lose: before the first step, and if
// some shard was lost with another holder. The leaver decides how long it
// stays: when its patience ends, it leaves like any other worker.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `member` of `job` is to leave, and stays until it is released.
[[nodiscard]] bool IsLeaver(const State& state, const Job& job,
                            const Member& member);
[[nodiscard]] bool HasLeaver(const State& state, const Job& job);

// Returns true if a leaver of `job` may hold shards.
[[nodiscard]] bool HasLeavingHolder(const State& state, const Job& job);

// Returns true if the last checkpoint of `job` is of `step`, at which it is.
[[nodiscard]] bool IsInCheckpoint(const Job& job, int64_t step);

// Returns how many updates, at most, the shards of `job` have beyond `step`, at
// which the slowest of its workers is, each with a clock of its own;
// kUnknownUpdates: a restart forgot how many. A checkpoint of `step` need not
// have them, and is not written again. 0 if steps are common to all.
[[nodiscard]] int64_t UpdatesBeyond(const Job& job, int64_t step);

// "12 steps", "12 steps and up to 3 updates of its workers": what is in no
// checkpoint, as far as is known, if `job` has got to `step`; empty if nothing
// is.
[[nodiscard]] std::string UnsavedWork(const Job& job, int64_t step);

// Returns true if the members of `job` that are left can write a checkpoint of what
// they hold, in a generation that makes no step.
[[nodiscard]] bool CanSave(const State& state, const Job& job);

// Returns true if `job` has a member to give its state to: one that stays, or one
// that may join.
[[nodiscard]] bool CanBeRelieved(const State& state, const Job& job);

// Returns the number of members of that role that are neither lost nor leaving.
[[nodiscard]] int StayingCount(const State& state, const Job& job,
                               v1::Role role);

// Returns the hosts from which the next generation of `job` takes idle members
// of that role. Leavers do not count: if too few would stay, workers of
// quarantined hosts join while the state can still be handed over.
[[nodiscard]] Hosts HostsToJoinFrom(const State& state, const Job& job,
                                    v1::Role role);
// Returns how many there are.
[[nodiscard]] int IdleToJoin(const State& state, const Job& job, v1::Role role);

// "worker c", "workers c, d"; hundreds are cut short.
[[nodiscard]] std::string NamesText(v1::Role role,
                                    const std::vector<std::string>& names);

// "parameter server s leaves", "workers a, b leave; worker c goes to job mlp-2";
// empty if none leaves.
[[nodiscard]] std::string LeaveText(const State& state, const Job& job);

// The state that a job whose members have halted can resume with.
struct HeldState {
  // By shard, the ranks that hold it; a job without shards has one, the whole
  // state. Empty if no step was made.
  std::vector<std::set<int>> copies;
  int64_t step = 0;
  // There is none, although steps were made.
  bool is_rollback = false;
  // Others, who are lost, may have got further.
  bool may_lack_steps = false;
  // The job gives way with what its checkpoint of `step` has.
  bool takes_checkpoint = false;
};

// The way in which the leavers go.
enum class LeaveWay {
  kNone,      // nobody leaves, or the job is about to end anyway
  kRelease,   // all are released
  kHandOver,  // `needed` stay until others have copies
  kSave,      // all stay until a checkpoint is written
  kWait,      // `needed` stay; nobody could take over from them yet
};

struct LeavePlan {
  LeaveWay way = LeaveWay::kNone;
  // The ranks of those that hold the only copies of something.
  std::set<int> needed = {};
  // The next generation is there for the copies alone.
  bool makes_no_step = false;
  // For those that are released.
  bool is_relieved = true;
  std::string why = {};
  // The step is in a checkpoint, so nothing is lost with them.
  bool is_saved = false;
  // A checkpoint of the step may be written, if the hand-over is late.
  bool may_save_later = false;
};

[[nodiscard]] LeavePlan PlanLeave(const Turn& turn, const Job& job,
                                  const HeldState& held);

// Returns when the `needed` leavers of `job`, which hand their state over, have to
// begin with a checkpoint at the latest, so that it is written before the first of
// them goes; InfiniteFuture if they have no time limit, or less time than one takes.
[[nodiscard]] MonotonicTime LatestSave(const Turn& turn, const Job& job,
                                       const std::set<int>& needed);

// Returns when a job that waits for absent members has to go on at the latest, so
// that its leavers can still hand over, or write, what they alone have of `held`;
// InfiniteFuture if there are none, or they have no time limit.
[[nodiscard]] MonotonicTime LatestHandOver(const Turn& turn, const Job& job,
                                           const HeldState& held);

// The hand-over is not done at that time, or has not begun, as the job waits: halts
// the members, or considers anew what they do.
void OnHandOverDeadline(Turn& turn, Job& job);

// Releases the leavers of `job` that do not stay. Returns true if it released
// any.
bool ReleaseLeavers(Turn& turn, Job& job, const LeavePlan& plan, int64_t step);

// Tells those of `needed` that were not told yet that they wait for a successor.
void AdviseToWait(Turn& turn, const Job& job, const std::set<int>& needed,
                  const std::string& why);

// The verdict on the halt of members that stopped at `step` by themselves,
// because members leave.
[[nodiscard]] v1::Verdict VerdictOnLeave(const Turn& turn, const Job& job,
                                         int64_t step);

// "the job has no checkpoint directory": why step `step` of `job` is in none.
[[nodiscard]] std::string WhyNotSaved(const Job& job, int64_t step);

// "hands step 40 over to workers c, d": what the generation of `job` does if it
// makes no step; empty if it trains.
[[nodiscard]] std::string ClosingText(const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_
