// Halting a generation, and the decision that follows once all its members have
// stopped.
//
// The arithmetic: a member that applied step s had all members' records of s,
// and a member that sends a record holds every reduced bucket of that step. So
// no survivor's complete_step is below any step that any member has applied,
// and the least complete_step of the survivors is the step to resume from:
// nothing applied is lost while any holder is left. A member whose answer does not
// fit says what is not so; see contradictions.h.
//
// A newcomer stands at (0, 0) until it holds the whole state of the resume
// step, and at that step from then on. So a member that reports (0, 0) although
// steps were applied holds nothing and does not count: it is a newcomer of the
// next generation too.
//
// A member that starts from a checkpoint of step S holds S complete with
// nothing applied, and applies it once all members say that they hold it. So
// the same is true of that step: either all hold S and resume from it, or none
// applied it and nothing is lost by resuming from 0, where they start from a
// checkpoint again.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HALT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HALT_H_

#include "common/status/exit_code.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Halts the members of `job`, which is PREPARING (assigned), RUNNING or
// STOPPING, at once. `verdict` says why; unless the intent is to cancel, it is
// the job's incident and journaled.
void BeginHalt(Turn& turn, Job& job, HaltIntent intent, v1::Verdict verdict);

// Returns the verdict that members of `job`, which is HALTING, receive.
[[nodiscard]] v1::Verdict HaltVerdict(const Job& job, absl::Time time);

// Ends `job` as FAILED with `verdict` once its members have halted, whichever
// state it is in.
void FailJob(Turn& turn, Job& job, v1::Verdict verdict);

// Acts if every member that is left has halted: re-forms (reform.h), or ends
// the job.
void ResolveHalt(Turn& turn, Job& job);

// What `member` of the present generation of `job` holds, as it says.
[[nodiscard]] HaltedAnswer AnswerOf(const Job& job, const Member& member,
                                    const HaltedReceived& halted);

void OnHalted(Turn& turn, Worker& worker, const HaltedReceived& halted);

// Evicts the members that have not halted when the budget is over.
void OnHaltDeadline(Turn& turn, Job& job);

// A member of `job` is gone: `gone` is its worker's last state, already removed
// from the pool; `what` and `evidence` tell how ("was lost", "left"), and
// `exit_code` what that maps to.
void OnMemberGone(Turn& turn, const Worker& gone, std::string_view what,
                  v1::Evidence evidence,
                  ExitCode exit_code = ExitCode::kRetryElsewhere);

// `worker` attached again as `member` but no longer knows the generation: it
// holds nothing and becomes a newcomer of the next one. Halts the job if it is
// not halted yet.
void MakeBlank(Turn& turn, Job& job, const Worker& worker, Member& member);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HALT_H_
