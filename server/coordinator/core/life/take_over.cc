#include "server/coordinator/core/life/take_over.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/attach.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/reform.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/placement/shards.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {
namespace {

// Returns the identity of a rank that no worker has reported. No worker has
// incarnation 0, so it matches none.
MemberIdentity UnknownIdentity(int rank, v1::Role role) {
  MemberIdentity identity;
  identity.role = role;
  identity.worker = absl::StrCat("unknown-", rank);
  identity.host = "unknown";
  return identity;
}

// The worker that is `identity`, if it is still as it reported.
Worker* WorkerOf(State& state, const Rebuilding& rebuilding,
                 const MemberIdentity& identity) {
  Worker* const worker = ReporterOf(state, rebuilding, identity.rank);
  return worker != nullptr && worker->name == identity.worker &&
                 worker->incarnation == identity.incarnation
             ? worker
             : nullptr;
}

// Binds the members that are there to the job; returns the ranks of the others.
std::vector<int> Seat(Turn& turn, Job& job, const Rebuilding& rebuilding,
                      const GenerationFormedRecord& record) {
  std::vector<int> missing;
  job.members.clear();
  for (const MemberIdentity& identity : record.members) {
    Member member;
    member.identity = identity;
    member.since = record.generation;
    member.step = job.resume_step;
    if (const Worker* const worker =
            WorkerOf(turn.state, rebuilding, identity)) {
      if (identity.role == v1::ROLE_WORKER) {
        member.step = std::max(member.step, worker->step);
        job.best_step = std::max(job.best_step, member.step);
      }
    } else {
      missing.push_back(identity.rank);
    }
    job.members.push_back(std::move(member));
  }
  return missing;
}

// "2 of 3 ranks are there, without rank 1".
std::string SeatsText(const Job& job, const std::vector<int>& missing) {
  constexpr size_t kMostShown = 8;
  std::string text = absl::StrCat(job.members.size() - missing.size(), " of ",
                                  job.members.size(), " ranks are there");
  for (size_t i = 0; i < missing.size(); ++i) {
    if (i == kMostShown) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text,
                    i > 0                 ? ", "
                    : missing.size() == 1 ? ", without rank "
                                          : ", without ranks ",
                    missing[i]);
  }
  return text;
}

// Releases workers whose rank is not in the record: they reported too late.
void ReleaseLate(Turn& turn, const Job& job, const Rebuilding& rebuilding) {
  for (const Member& member : job.members) {
    Worker* const worker =
        ReporterOf(turn.state, rebuilding, member.identity.rank);
    if (worker != nullptr &&
        WorkerOf(turn.state, rebuilding, member.identity) == nullptr) {
      Release(turn, *worker, v1::JOB_STATE_FAILED,
              absl::StrCat("generation ", job.generation,
                           " is over for worker ", worker->name));
    }
  }
}

// Marks the missing ranks as lost: they have not reported since the rebuilding
// began, at `since`.
void LoseMissing(Turn& turn, Job& job, const std::vector<int>& missing,
                 MonotonicTime since) {
  const std::string detail =
      absl::StrCat("did not attach again within ",
                   absl::FormatDuration(turn.config.reattach_budget),
                   " after the coordinator lost its state");
  for (const int rank : missing) {
    if (job.ending.has_value()) return;
    Worker gone = DetachedWorker(job.members[rank].identity, job);
    gone.last_heard = since;
    OnMemberGone(turn, gone, "was lost",
                 EvidenceOf(v1::EVIDENCE_KIND_LEASE_EXPIRED,
                            kCoordinatorObserver, detail));
  }
}

}  // namespace

bool IsReporter(const Rebuilding& rebuilding, const Worker& worker) {
  const auto it = rebuilding.workers.find(worker.rank);
  return worker.session != 0 && it != rebuilding.workers.end() &&
         it->second == worker.name &&
         worker.generation == rebuilding.generation;
}

Worker* ReporterOf(State& state, const Rebuilding& rebuilding, int rank) {
  const auto it = rebuilding.workers.find(rank);
  if (it == rebuilding.workers.end()) return nullptr;
  Worker* const worker = state.FindWorker(it->second);
  return worker != nullptr && worker->rank == rank &&
                 IsReporter(rebuilding, *worker)
             ? worker
             : nullptr;
}

GenerationFormedRecord RebuiltRecord(Turn& turn, const Rebuilding& rebuilding,
                                     const Job& job) {
  GenerationFormedRecord record;
  record.generation = rebuilding.generation;
  record.formed_by = rebuilding.formed_by;
  record.job_id = rebuilding.job.job_id;
  record.resume_step = rebuilding.job.resume_step;
  // Applied steps are given up only by a rollback, here in or before a
  // generation that the journal does not know.
  record.is_rollback =
      job.sharding.is_lockstep && record.resume_step < job.best_step;
  record.time = turn.time;
  record.placements = rebuilding.job.placements;
  std::map<std::pair<ContainerKey, v1::Role>, int> in_container;
  for (int rank = 0; rank < MemberCount(rebuilding.job); ++rank) {
    const Worker* const worker = ReporterOf(turn.state, rebuilding, rank);
    const v1::Role role = RoleOf(rebuilding.job, rank);
    MemberIdentity identity =
        worker == nullptr ? UnknownIdentity(rank, role) : IdentityOf(*worker);
    identity.rank = rank;
    if (worker != nullptr) {
      identity.local_rank = in_container[{ContainerOf(*worker), role}]++;
    }
    record.members.push_back(std::move(identity));
  }
  return record;
}

void TakeOver(Turn& turn, Job& job, Rebuilding& rebuilding,
              const GenerationFormedRecord& record) {
  const int64_t known = job.generation;
  Account(job, turn.now);
  job.generation = record.generation;
  NoteFormed(turn.state, record.generation, record.formed_by);
  if (job.first_generation == 0) job.first_generation = record.generation;
  job.resume_step = record.resume_step;
  if (record.is_rollback) CountRollback(job);
  if (record.is_rollback || !job.sharding.is_lockstep) {
    job.counted_since = record.generation;
  }
  // Nobody tells whether it was the first one, which set no clock back.
  if (!job.sharding.is_lockstep) {
    job.clocks.set_back = kUnknownUpdates;
    job.clocks.highest = kUnknownClock;
  }
  // Later steps that the older journal knew are given up; Seat adds those that
  // the members have applied.
  job.best_step = record.resume_step;
  if (job.start_time == absl::InfinitePast()) job.start_time = record.time;
  const std::vector<int> missing = Seat(turn, job, rebuilding, record);
  job.placements = PlacementsOf(job, record);
  ReleaseLate(turn, job, rebuilding);
  job.stage = stage::Running{};
  job.is_assigned = job.is_recovered = job.has_trained = true;
  job.told_generation = job.generation;
  job.waits_for_journal = false;
  job.last_progress = turn.now;
  turn.state.active_jobs.insert(job.number);
  job.message = absl::StrCat(
      "rebuilt from what its workers tell: ", SeatsText(job, missing), "; ",
      known == 0 ? std::string("the journal knew of no generation of it")
                 : absl::StrCat("the journal knew generation ", known));
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.rebuilt", job, "", job.message);
  if (job.cancel_reason.has_value()) StopMembers(turn, job);
  const MonotonicTime since = rebuilding.since;
  for (EventBody& kept : rebuilding.kept_events) {
    turn.state.kept_events.push_back(std::move(kept));
  }
  turn.state.rebuildings.erase(job.id);
  LoseMissing(turn, job, missing, since);
  // Workers may have asked to join or leave before.
  turn.ScheduleSoon();
}

}  // namespace ringmaster::coordinator
