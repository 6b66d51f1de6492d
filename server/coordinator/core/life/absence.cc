#include "server/coordinator/core/life/absence.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/placement/shards.h"

namespace ringmaster::coordinator {
namespace {

// Returns true if a member that is lost on such evidence may live.
bool MayLive(v1::EvidenceKind kind) {
  switch (kind) {
    case v1::EVIDENCE_KIND_STREAM_BROKEN:
    case v1::EVIDENCE_KIND_LEASE_EXPIRED:
    case v1::EVIDENCE_KIND_HALT_UNANSWERED:
    case v1::EVIDENCE_KIND_NO_PROGRESS:
    case v1::EVIDENCE_KIND_PEER_REPORT:
    case v1::EVIDENCE_KIND_SUPERSEDED:
      return true;
    default:
      return false;
  }
}

bool HoldsState(const Job& job, v1::Role role) {
  return job.sharding.shards > 0 ? HoldsShards(job, role)
                                 : role == v1::ROLE_WORKER;
}

bool HoldsNothing(const HaltedAnswer& answer) {
  return answer.is_blank ||
         (answer.complete_step == 0 && answer.shards.empty() &&
          answer.given_shards.empty());
}

bool MayHold(const Job& job, const Member& member) {
  if (!HoldsState(job, member.identity.role)) return false;
  if (member.halted.has_value()) return !HoldsNothing(*member.halted);
  // A newcomer holds the state once the generation has committed a step, which
  // nobody may have told of.
  return !member.is_newcomer || job.has_trained;
}

bool IsOf(const AbsentMember& absent, std::string_view name,
          uint64_t incarnation) {
  return absent.member.identity.worker == name &&
         absent.member.identity.incarnation == incarnation;
}

const AbsentMember* Find(const Job& job, std::string_view name,
                         uint64_t incarnation) {
  for (const AbsentMember& absent : job.absence.members) {
    if (IsOf(absent, name, incarnation)) return &absent;
  }
  return nullptr;
}

AbsentMember* Find(Job& job, std::string_view name, uint64_t incarnation) {
  return const_cast<AbsentMember*>(Find(std::as_const(job), name, incarnation));
}

// The worker that is back, or null.
Worker* KeeperOf(State& state, const AbsentMember& absent) {
  const MemberIdentity& identity = absent.member.identity;
  Worker* const worker = state.FindWorker(identity.worker);
  return worker != nullptr && worker->incarnation == identity.incarnation &&
                 !worker->keeps_steps_of.empty()
             ? worker
             : nullptr;
}

void ReleaseKeeper(Turn& turn, const Job& job, Worker& worker) {
  worker.keeps_steps_of.clear();
  Release(turn, worker, job.state(),
          absl::StrCat("generation ", worker.generation, " is over for worker ",
                       worker.name));
}

// Drops those that `is_over` says, and releases who is back.
template <typename IsOver>
void Drop(Turn& turn, Job& job, const IsOver& is_over) {
  for (const AbsentMember& absent : job.absence.members) {
    if (!is_over(absent)) continue;
    if (Worker* const worker = KeeperOf(turn.state, absent)) {
      ReleaseKeeper(turn, job, *worker);
    }
  }
  std::erase_if(job.absence.members, is_over);
}

// The job has been in no other generation since: one that nobody was told of is
// none.
bool IsOfPresent(const Job& job, const AbsentMember& absent) {
  return absent.generation >= job.told_generation;
}

// A member of the present generation that has halted says that this has
// committed nothing: a step takes all members.
bool HasCommittedNothing(const Job& job) {
  return !job.has_trained ||
         std::any_of(job.members.begin(), job.members.end(),
                     [&](const Member& member) {
                       return !member.is_lost && member.halted.has_value() &&
                              member.identity.role == v1::ROLE_WORKER &&
                              member.halted->complete_step <= job.resume_step;
                     });
}

// It may be taken, whether or not it is back.
bool IsOfUse(const Job& job, const AbsentMember& absent) {
  if (IsOfPresent(job, absent)) return true;
  // Servers may have made a step of which no worker knows.
  return job.sharding.shards > 0 ? job.sharding.is_lockstep && !job.has_trained
                                 : HasCommittedNothing(job);
}

// What `absent` holds of what the job's generation goes on from.
HaltedAnswer AnswerIn(const Job& job, const AbsentMember& absent) {
  HaltedAnswer answer = *absent.answer;
  if (IsOfPresent(job, absent)) return answer;
  answer.complete_step = std::min(answer.complete_step, job.resume_step);
  if (job.sharding.shards > 0) {
    answer.applied_step = std::min(answer.applied_step, job.resume_step);
  } else {
    // It cannot go back behind a step that it applied, even if the others said that
    // there was none.
    answer.complete_step = std::max(answer.complete_step, answer.applied_step);
  }
  return answer;
}

// Puts the worker that is back into its old seat, or into one behind the
// others if the table is a newer one's. Who holds state comes last in it.
void Seat(Turn& turn, Job& job, const AbsentMember& absent, Worker& worker) {
  const auto old =
      std::find_if(job.members.begin(), job.members.end(), [&](const auto& m) {
        return m.is_lost &&
               IsOf(absent, m.identity.worker, m.identity.incarnation);
      });
  Member member = absent.member;
  member.identity = IdentityOf(worker);
  member.identity.local_rank = absent.member.identity.local_rank;
  member.identity.rank = static_cast<int>(old - job.members.begin());
  member.is_lost = false;
  member.loss.clear();
  member.prepared.reset();
  member.halted = AnswerIn(job, absent);
  // Steps that it applied in later generations were made anew, so they do not
  // count.
  member.step = CountedStep(job, worker.role, member.halted->applied_step);
  if (worker.state == v1::WORKER_STATE_IDLE) {
    worker.state = v1::WORKER_STATE_ASSIGNED;
  }
  worker.job_id = job.id;
  worker.rank = member.identity.rank;
  worker.keeps_steps_of.clear();
  worker.phase = v1::PHASE_HALTED;
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "worker.returned", job, worker.name,
            absl::StrCat(Describe(member.identity),
                         " is back with its state, as of step ",
                         member.halted->complete_step));
  if (old == job.members.end()) {
    job.members.push_back(std::move(member));
  } else {
    *old = std::move(member);
  }
}

// Returns true if most of those that held the state went after `since`.
bool AreMost(const Job& job, MonotonicTime since) {
  std::set<std::string_view> hosts;
  size_t gone = 0;
  size_t all = 0;
  for (const Member& member : job.members) {
    if (HoldsState(job, member.identity.role)) ++all;
  }
  for (const AbsentMember& absent : job.absence.members) {
    if (!IsOfPresent(job, absent) || absent.lost_at < since) continue;
    ++gone;
    hosts.insert(absent.member.identity.host_key);
  }
  // Two, or one host, may well be lost by themselves. If nobody is left, they
  // are waited for anyway.
  return gone > 2 && 2 * gone > all && gone < all && hosts.size() > 1;
}

// Returns true if `absent`, which is back, holds something as of `applied_step`.
// A holder may have older copies beside it, of shards that it once gave away.
bool HoldsStep(const Job& job, const AbsentMember& absent,
               int64_t applied_step) {
  const HaltedAnswer answer = AnswerIn(job, absent);
  const bool is_level =
      absent.member.identity.role == v1::ROLE_PARAMETER_SERVER ||
      answer.complete_step >= applied_step;
  return !job.sharding.is_lockstep ||
         (is_level && (answer.shards.empty() ||
                       std::any_of(answer.shards.begin(), answer.shards.end(),
                                   [&](const HeldShard& held) {
                                     return held.complete_step >= applied_step;
                                   })));
}

// Lets a member go that holds nothing, so that one that does has room; returns
// whether there was any.
bool MakeRoom(Turn& turn, Job& job) {
  const auto blank =
      std::find_if(job.members.rbegin(), job.members.rend(), [](const auto& m) {
        return !m.is_lost && m.identity.role == v1::ROLE_WORKER &&
               m.halted.has_value() && HoldsNothing(*m.halted);
      });
  if (blank == job.members.rend()) return false;
  blank->is_lost = true;
  blank->loss = "made room for one that holds the state";
  Release(turn, *turn.state.FindWorker(blank->identity.worker), job.state(),
          blank->loss);
  return true;
}

// Where workers hold shards, each may hold one that no other has, so they come on top
// of the job's max; those who are too many are let go once others have what they hold.
bool HasRoom(Turn& turn, Job& job, const Member& member) {
  return member.identity.role != v1::ROLE_WORKER ||
         AliveCount(job, v1::ROLE_WORKER) < job.max_workers ||
         MakeRoom(turn, job) || HoldsShards(job, v1::ROLE_WORKER);
}

}  // namespace

void AddAbsent(Job& job, const Member& member, v1::EvidenceKind kind,
               MonotonicTime now) {
  if (!MayLive(kind) || !MayHold(job, member)) return;
  job.absence.members.push_back({member, job.generation, now, std::nullopt});
}

void NoteAbsent(const Turn& turn, Job& job, const Member& member,
                v1::EvidenceKind kind) {
  AddAbsent(job, member, kind, turn.now);
  if (job.absence.return_deadline == MonotonicTime::InfiniteFuture() &&
      AreMost(job, turn.now - turn.config.stall_tolerance)) {
    job.absence.return_deadline = turn.now + turn.config.reattach_budget;
  }
}

const MemberIdentity* FindAbsent(const State& state, std::string_view name,
                                 uint64_t incarnation) {
  const Job* const job = JobAbsentFrom(state, name, incarnation);
  return job == nullptr ? nullptr
                        : &Find(*job, name, incarnation)->member.identity;
}

const Job* JobAbsentFrom(const State& state, std::string_view name,
                         uint64_t incarnation) {
  for (const Job* const job : state.ActiveJobs()) {
    if (Find(*job, name, incarnation) != nullptr) return job;
  }
  return nullptr;
}

Job* JobAbsentFrom(State& state, std::string_view name, uint64_t incarnation) {
  return const_cast<Job*>(
      JobAbsentFrom(std::as_const(state), name, incarnation));
}

void ForgetEnded(Turn& turn, std::string_view name, uint64_t incarnation) {
  const auto has_ended = [&](const AbsentMember& absent) {
    return absent.member.identity.worker == name &&
           absent.member.identity.incarnation != incarnation;
  };
  for (Job* const job : turn.state.ActiveJobs()) {
    const size_t forgotten = std::erase_if(job->absence.members, has_ended);
    if (forgotten > 0 && IsWaiting(*job) && !job->ending.has_value()) {
      Reform(turn, *job);
    }
  }
}

void DropOvertaken(Turn& turn, Job& job) {
  Drop(turn, job, [&](const AbsentMember& absent) {
    return absent.generation < job.told_generation;
  });
}

void DropAll(Turn& turn, Job& job) {
  Drop(turn, job, [](const AbsentMember&) { return true; });
}

bool KeepsSteps(Turn& turn, Worker& worker, const HelloReceived& hello) {
  worker.keeps_steps_of.clear();
  Job* const job = JobAbsentFrom(turn.state, worker.name, worker.incarnation);
  if (job == nullptr) return false;
  AbsentMember* const absent = Find(*job, worker.name, worker.incarnation);
  absent->answer.reset();
  if (job->ending.has_value() || job->cancel_reason.has_value() ||
      IntentOf(*job) != HaltIntent::kReform || hello.generation == 0 ||
      hello.generation < absent->member.since ||
      hello.generation > absent->generation) {
    ForgetEnded(turn, worker.name, /*incarnation=*/0);
    return false;
  }
  worker.keeps_steps_of = job->id;
  worker.phase = v1::PHASE_UNSPECIFIED;
  worker.generation = hello.generation;
  worker.step = hello.applied_step;
  // The others that went with it have as long as after a restart.
  if (job->absence.holders_deadline != MonotonicTime::InfiniteFuture() &&
      job->absence.return_deadline == MonotonicTime::InfiniteFuture()) {
    job->absence.return_deadline = turn.now + turn.config.reattach_budget;
  }
  turn.Do(SendHalt{worker.session, worker.generation,
                   HaltVerdict(*job, turn.time)});
  return true;
}

void OnKeptHalted(Turn& turn, Worker& worker, const HaltedReceived& halted) {
  Job& job = *turn.state.FindJob(worker.keeps_steps_of);
  AbsentMember* const absent = Find(job, worker.name, worker.incarnation);
  if (absent == nullptr) return;
  HaltedAnswer answer{halted.applied_step, halted.complete_step};
  if (IsOfPresent(job, *absent)) {
    answer = AnswerOf(job, absent->member, halted);
  } else if (HoldsShards(job, worker.role)) {
    KeepHeldShards(job, absent->member, halted.generation, halted.shards,
                   answer);
  }
  answer.generation = halted.generation;
  worker.step = answer.applied_step;
  // It took part in the newest generation, which has not got beyond that then.
  if (job.sharding.shards == 0 && absent->generation == job.generation &&
      job.generation == job.told_generation &&
      answer.complete_step <= job.resume_step) {
    job.has_trained = false;
  }
  if (HoldsNothing(answer)) {
    ReleaseKeeper(turn, job, worker);
    ForgetEnded(turn, worker.name, /*incarnation=*/0);
    return;
  }
  absent->answer = std::move(answer);
  turn.Touch(job);
  turn.ScheduleSoon();
}

void NoteKeeperGone(Turn& turn, const Worker& gone, v1::EvidenceKind kind) {
  Job* const job = turn.state.FindJob(gone.keeps_steps_of);
  AbsentMember* const absent =
      job == nullptr ? nullptr : Find(*job, gone.name, gone.incarnation);
  if (absent == nullptr) return;
  absent->answer.reset();
  if (!MayLive(kind)) ForgetEnded(turn, gone.name, /*incarnation=*/0);
}

std::optional<HaltedAnswer> KeptAnswer(const Job& job,
                                       const MemberIdentity& identity,
                                       int64_t resume_step) {
  // After step 0 everybody begins anew.
  if (job.sharding.shards > 0 || resume_step == 0) return std::nullopt;
  for (const AbsentMember& absent : job.absence.members) {
    if (!IsOf(absent, identity.worker, identity.incarnation) ||
        !absent.answer.has_value()) {
      continue;
    }
    const HaltedAnswer answer = AnswerIn(job, absent);
    if (answer.applied_step <= resume_step &&
        resume_step <= answer.complete_step) {
      return answer;
    }
  }
  return std::nullopt;
}

void NoteSeated(Job& job, const MemberIdentity& identity) {
  std::erase_if(job.absence.members, [&](const AbsentMember& absent) {
    return IsOf(absent, identity.worker, identity.incarnation);
  });
}

std::vector<const AbsentMember*> ReturnedMembers(const Job& job) {
  std::vector<const AbsentMember*> returned;
  for (const AbsentMember& absent : job.absence.members) {
    if (absent.answer.has_value() && IsOfPresent(job, absent)) {
      returned.push_back(&absent);
    }
  }
  return returned;
}

void ReleaseReturned(Turn& turn, Job& job, const MemberIdentity& identity) {
  Drop(turn, job, [&](const AbsentMember& absent) {
    return IsOf(absent, identity.worker, identity.incarnation);
  });
}

bool AwaitsReturn(const Job& job, MonotonicTime now) {
  if (job.absence.return_deadline == MonotonicTime::InfiniteFuture() ||
      job.absence.return_deadline <= now) {
    return false;
  }
  return std::any_of(job.absence.members.begin(), job.absence.members.end(),
                     [&](const AbsentMember& absent) {
                       return IsOfPresent(job, absent) &&
                              !absent.answer.has_value();
                     });
}

bool TakeBack(Turn& turn, Job& job, int64_t applied_step) {
  for (const AbsentMember& absent : job.absence.members) {
    if (absent.answer.has_value() && IsOfPresent(job, absent) &&
        absent.member.identity.role == v1::ROLE_WORKER) {
      applied_step = std::max(applied_step, absent.answer->applied_step);
    }
  }
  std::vector<AbsentMember> taken;
  for (const AbsentMember& absent : job.absence.members) {
    if (absent.answer.has_value() && IsOfUse(job, absent) &&
        HoldsStep(job, absent, applied_step) &&
        KeeperOf(turn.state, absent) != nullptr) {
      taken.push_back(absent);
    }
  }
  std::stable_sort(taken.begin(), taken.end(),
                   [](const AbsentMember& a, const AbsentMember& b) {
                     return a.generation > b.generation;
                   });
  for (const AbsentMember& absent : taken) {
    if (!HasRoom(turn, job, absent.member)) continue;
    Seat(turn, job, absent, *KeeperOf(turn.state, absent));
    NoteSeated(job, absent.member.identity);
  }
  return !taken.empty();
}

bool AwaitsHolders(const Turn& turn, Job& job, MonotonicTime latest) {
  const bool may_come =
      std::any_of(job.absence.members.begin(), job.absence.members.end(),
                  [&](const AbsentMember& absent) {
                    return !absent.answer.has_value() && IsOfUse(job, absent);
                  });
  if (!may_come || job.absence.has_waited || latest <= turn.now ||
      turn.config.state_wait == absl::ZeroDuration()) {
    job.absence.holders_deadline = MonotonicTime::InfiniteFuture();
    return false;
  }
  // One that is lost while the job waits for others is waited for as long; and if it is
  // those who were to hand over, nobody ends the wait before that.
  if (job.absence.holders_deadline == MonotonicTime::InfiniteFuture())
    job.absence.holders_since = turn.now;
  for (const AbsentMember& absent : job.absence.members) {
    if (!absent.answer.has_value() && IsOfUse(job, absent))
      job.absence.holders_since =
          std::max(job.absence.holders_since, absent.lost_at);
  }
  const MonotonicTime deadline =
      std::min(job.absence.holders_since + turn.config.state_wait, latest);
  if (deadline != job.absence.holders_deadline) {
    job.absence.holders_deadline = deadline;
    job.absence.wait_end = turn.time + (deadline - turn.now);
  }
  return true;
}

void ExtendWaitForHolders(Job& job, absl::Duration delay) {
  if (job.absence.holders_deadline == MonotonicTime::InfiniteFuture()) return;
  job.absence.holders_since += delay;
  job.absence.holders_deadline += delay;
  job.absence.wait_end += delay;
}

std::string AbsentText(const Job& job) {
  constexpr size_t kMostShown = 8;
  std::string text;
  size_t shown = 0;
  for (const AbsentMember& absent : job.absence.members) {
    if (absent.answer.has_value() || !IsOfUse(job, absent)) continue;
    if (shown++ == kMostShown) return absl::StrCat(text, ", ...");
    const MemberIdentity& identity = absent.member.identity;
    absl::StrAppend(&text, shown == 1 ? "" : ", ", Sv(NameOf(identity.role)),
                    " ", identity.worker, " (rank ", identity.rank, ")");
  }
  return text;
}

void OnReturnDeadline(Turn& turn, Job& job) {
  if (IsWaiting(job)) {
    Reform(turn, job);
  } else {
    job.absence.return_deadline = MonotonicTime::InfiniteFuture();
  }
}

void OnHoldersDeadline(Turn& turn, Job& job) {
  job.absence.holders_deadline = MonotonicTime::InfiniteFuture();
  job.absence.has_waited = true;
  if (IsWaiting(job)) Reform(turn, job);
}

}  // namespace ringmaster::coordinator
