// Absent members: those that were given up, but whose processes may live and
// hold steps that nobody else holds.
//
// A stream that broke, a lease that ran out and a halt that was not answered
// say that a member is not heard, not that it is dead. So the job goes on
// without it at once, but it keeps what it holds until a later generation has
// committed a step:
//
//   given up --hello of the same life--> back, idle; its trainer is halted
//   back     --tells what it holds-----> a member again, if the job needs it
//                                        (TakeBack) or begins a generation with
//                                        it
//            --a later generation
//              commits a step----------> released, an idle worker like others
//
// The job waits for absent members only where there is a reason to: where
// nobody who is there holds the newest step, or only copies that took no part in
// the generation (docs/decisions/0060), for Config::state_wait; where most of the
// members went at the same time, which points to the coordinator's own
// connection, for Config::reattach_budget. A member that is known to have ended
// is not waited for: one that left, and one whose name has another life.
//
// Fencing. A member of an older generation than the job's may be taken only
// while that has committed no step, and then with the steps up to the job's
// resume step: what it holds beyond that was made by others anew. Where the
// state is in shards, it may be taken only while that has not begun to train.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_ABSENCE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_ABSENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// ---- Who is absent.

// Notes that `member` of `job`, which is lost on evidence of that kind, may
// come back.
void AddAbsent(Job& job, const Member& member, v1::EvidenceKind kind,
               MonotonicTime now);

// The same while the coordinator works: if most went at the same time, it waits
// a while for them.
void NoteAbsent(const Turn& turn, Job& job, const Member& member,
                v1::EvidenceKind kind);

// The active job from which the member of that name and incarnation is absent;
// null: there is none.
[[nodiscard]] const Job* JobAbsentFrom(const State& state,
                                       std::string_view name,
                                       uint64_t incarnation);
[[nodiscard]] Job* JobAbsentFrom(State& state, std::string_view name,
                                 uint64_t incarnation);

// That member as the job knows it; null: none is absent.
[[nodiscard]] const MemberIdentity* FindAbsent(const State& state,
                                               std::string_view name,
                                               uint64_t incarnation);

// The processes of that name with another incarnation have ended; 0: all.
void ForgetEnded(Turn& turn, std::string_view name, uint64_t incarnation);

// Those that were absent before the present generation of `job` hold nothing
// that counts any more: it has committed a step, or they were given up for good.
void DropOvertaken(Turn& turn, Job& job);
// Nobody is waited for any more.
void DropAll(Turn& turn, Job& job);

// ---- Who comes back.

// Returns true if `worker`, which is in the pool and says `hello`, was given up
// and is to keep what it holds; it is halted then.
[[nodiscard]] bool KeepsSteps(Turn& turn, Worker& worker,
                              const HelloReceived& hello);

// `worker`, which keeps its steps, tells which.
void OnKeptHalted(Turn& turn, Worker& worker, const HaltedReceived& halted);

// The answer of that life, which is back, if a generation that goes on after
// `resume_step` can begin with what it holds.
[[nodiscard]] std::optional<HaltedAnswer> KeptAnswer(
    const Job& job, const MemberIdentity& identity, int64_t resume_step);

// `gone`, which kept its steps, is lost on evidence of that kind.
void NoteKeeperGone(Turn& turn, const Worker& gone, v1::EvidenceKind kind);

// It is a member of the generation that `job` forms, with or without its steps.
void NoteSeated(Job& job, const MemberIdentity& identity);

// ---- What a job that re-forms does about them.

// Those of the present generation of `job` that are back and have told what they
// hold. The pointers last until `job.absence.members` changes.
[[nodiscard]] std::vector<const AbsentMember*> ReturnedMembers(const Job& job);

// What that member holds no longer counts: it is an idle worker like others.
void ReleaseReturned(Turn& turn, Job& job, const MemberIdentity& identity);

// Returns true if members of `job` that went with most others may still come
// back.
[[nodiscard]] bool AwaitsReturn(const Job& job, MonotonicTime now);

// Makes members of those that are back and hold step `applied_step`; returns
// whether there were any.
bool TakeBack(Turn& turn, Job& job, int64_t applied_step);

// Returns true if somebody who is absent may hold the steps of `job`, and the
// time for it, until `latest` at most, is not over. Begins the wait.
[[nodiscard]] bool AwaitsHolders(const Turn& turn, Job& job,
                                 MonotonicTime latest);

// The coordinator itself was silent for `delay`: nobody could come back meanwhile.
void ExtendWaitForHolders(Job& job, absl::Duration delay);

// "worker a (rank 0), worker b (rank 1)": those that are waited for.
[[nodiscard]] std::string AbsentText(const Job& job);

// The waits are over.
void OnReturnDeadline(Turn& turn, Job& job);
void OnHoldersDeadline(Turn& turn, Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_ABSENCE_H_
