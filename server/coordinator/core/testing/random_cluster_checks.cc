// The conditions that must always hold in a RandomCluster.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol/enum_name.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/quotas.h"
#include "server/coordinator/core/testing/random_cluster.h"

namespace ringmaster::coordinator {

void RandomCluster::CheckRecord(const JournalRecord& record) {
  if (const auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    Count("generation");
    if (!durable_generations_.empty() &&
        formed->generation <= *durable_generations_.rbegin()) {
      Violate(absl::StrCat("generation ", formed->generation, " after ",
                           *durable_generations_.rbegin()));
    }
    durable_generations_.insert(formed->generation);
    if (formed->is_rollback) {
      Count("rollback");
      CheckRollback(*formed);
      rollbacks_[formed->job_id] = formed->generation;
      applied_[formed->job_id] = told_[formed->job_id] = 0;
      if (formed->resume_step != 0) Violate("a rollback to a step");
    }
    std::set<std::string> names;
    for (size_t rank = 0; rank < formed->members.size(); ++rank) {
      names.insert(formed->members[rank].worker);
      if (formed->members[rank].rank != static_cast<int>(rank)) {
        Violate(absl::StrCat("rank ", formed->members[rank].rank,
                             " in place of ", rank));
      }
    }
    if (names.size() != formed->members.size()) Violate("a member twice");
  } else if (const auto* const job = std::get_if<JobCreatedRecord>(&record)) {
    durable_jobs_.insert(job->id);
  } else if (const auto* const end = std::get_if<JobEndedRecord>(&record)) {
    Count(EnumName(end->state));
    if (!durable_ends_.insert(end->job_id).second) {
      Violate(absl::StrCat("job ", end->job_id, " ended twice"));
    }
    const Job& job = *core_.state().FindJob(end->job_id);
    const int64_t total = job.total_steps;
    if (end->state == v1::JOB_STATE_SUCCEEDED &&
        applied_[end->job_id] < total) {
      Violate(absl::StrCat("job ", end->job_id, " succeeded at step ",
                           applied_[end->job_id], " of ", total));
    }
    if (end->state == v1::JOB_STATE_SUCCEEDED && job.keeps_checkpoints) {
      Count("last checkpoint");
      if (!written_.contains(end->job_id)) {
        Violate(absl::StrCat("job ", end->job_id,
                             " succeeded without its last checkpoint"));
      }
    }
    if (end->exit_code == 1) Violate(end->message);
  } else if (const auto* const reached =
                 std::get_if<VerdictReachedRecord>(&record)) {
    if (!reached->verdict.worker().empty() &&
        reached->verdict.evidence().empty()) {
      Violate("a verdict without evidence: " + reached->verdict.summary());
    }
  } else if (std::holds_alternative<HostQuarantinedRecord>(record)) {
    Count("quarantine");
  }
}

// No job takes a worker that is cordoned, or one from the pool with which it has more
// members than it asked for beside those that leave. (A holder of steps may come back
// to a job that has replaced it.)
void RandomCluster::CheckCordons(const GenerationFormedRecord& formed) {
  const State& state = core_.state();
  const Job& job = *state.FindJob(formed.job_id);
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_PARAMETER_SERVER}) {
    const int most = MostCount(job, role);
    const bool takes = std::any_of(
        job.members.begin(), job.members.end(), [&](const Member& member) {
          return member.identity.role == role && member.since == job.generation;
        });
    if (takes && StayingCount(state, job, role) > most) {
      Violate(absl::StrCat("generation ", formed.generation, " has more than ",
                           most, " of role ", EnumName(role)));
    }
  }
  for (const Member& member : job.members) {
    const Worker* const worker = state.FindWorker(member.identity.worker);
    if (worker == nullptr || state.CordonOf(*worker) == nullptr) continue;
    Count("cordoned member");
    if (member.is_newcomer && member.since == formed.generation) {
      Violate(absl::StrCat("generation ", formed.generation, " takes ",
                           worker->name, ", which is cordoned"));
    }
  }
}

// A job that begins, or grows beyond its min, leaves its queue with no more workers than
// it may have.
void RandomCluster::CheckRoom(const GenerationFormedRecord& formed) {
  const State& state = core_.state();
  const Job& job = *state.FindJob(formed.job_id);
  const Queue* const queue = QueueOf(state, job);
  if (queue == nullptr || !queue->spec.has_most_workers()) return;
  // Those that leave are there until others have taken over from them.
  const int stay = StayingCount(state, job, v1::ROLE_WORKER);
  const bool grows =
      std::ranges::any_of(job.members, [&](const Member& member) {
        return member.identity.role == v1::ROLE_WORKER &&
               member.since == formed.generation;
      });
  const bool begins = job.stay_began == formed.generation;
  if (!begins && (!grows || stay <= job.min_workers)) return;
  Count("room checked");
  if (stay > MostOfQueue(state, job)) {
    Violate(absl::StrCat("generation ", formed.generation, " has ", stay,
                         " workers, and queue ", queue->spec.name(),
                         " has room for ", MostOfQueue(state, job)));
  }
}

// No job gives so many workers that fewer than its min are left, unless it gives way to
// one of a higher priority, or within a quota where it borrows, or to one that it has
// overtaken, or is suspended; nor to one of a lower priority. None is given more than it
// lacks, or fewer.
void RandomCluster::CheckGifts() {
  const std::vector<Gift> gifts = Gifts(core_.state());
  // A job that gives way to one may give others what is left.
  const auto gives_way_to = [&](const Job& giver, const Job& taker) {
    const bool has_overtaken = taker.members.empty() && giver.can_go_on_later &&
                               IsAhead(taker, giver) &&
                               giver.first_generation != 0;
    if (has_overtaken && giver.priority == taker.priority) {
      Count("gives way to one that it has overtaken");
    }
    const bool has_borrowed = giver.priority == taker.priority &&
                              giver.place.borrows && !taker.place.borrows;
    if (has_borrowed) Count("gives way to one within a quota");
    return giver.priority < taker.priority || has_borrowed || has_overtaken;
  };
  const auto has_way = [&](const Gift& gift) {
    return std::any_of(gifts.begin(), gifts.end(), [&](const Gift& other) {
      return other.giver == gift.giver &&
             gives_way_to(*other.giver, *other.taker);
    });
  };
  std::map<const Job*, int> given;
  std::map<const Job*, int> taken;
  for (const Gift& gift : gifts) {
    Count("gift");
    if (gift.worker->role != v1::ROLE_WORKER) {
      Count("gift of a server");
      if (!gift.gives_way || (!gift.giver->is_suspended && !has_way(gift))) {
        Violate(absl::StrCat("job ", gift.giver->id, " gives server ",
                             gift.worker->name, " to ", gift.taker->id));
      }
      continue;
    }
    const int left =
        AliveCount(*gift.giver, v1::ROLE_WORKER) - ++given[gift.giver];
    if (gift.gives_way) Count("gives way");
    const bool may_empty =
        gift.gives_way && (gift.giver->is_suspended || has_way(gift));
    if ((left < gift.giver->min_workers && !may_empty) ||
        gift.giver == gift.taker ||
        (gift.giver->priority > gift.taker->priority && !gift.gives_way)) {
      Violate(absl::StrCat("job ", gift.giver->id, " gives ", gift.worker->name,
                           " to ", gift.taker->id, " and keeps ", left));
    }
    ++taken[gift.taker];
  }
  for (const auto& [taker, count] : taken) {
    const int with_gifts = AliveCount(*taker, v1::ROLE_WORKER) + count;
    const int idle = IdlePool(core_.state(), *taker).Count(Hosts::kAll);
    if (with_gifts > taker->min_workers ||
        with_gifts + idle < taker->min_workers) {
      Violate(absl::StrCat("job ", taker->id, " is given ", count,
                           " workers, and has ", with_gifts, " with them"));
    }
  }
}

void RandomCluster::CheckAssignment(const SendAssignment& assignment) {
  if (assignment.is_rehearsal) {
    if (durable_generations_.contains(assignment.generation)) {
      Violate(absl::StrCat("generation ", assignment.generation,
                           " is a rehearsal"));
    }
    return;
  }
  if (!durable_generations_.contains(assignment.generation)) {
    Violate(absl::StrCat("generation ", assignment.generation,
                         " assigned before it was durable"));
  }
  int64_t& last = last_assigned_[assignment.job_id];
  if (assignment.generation < last) {
    Violate(absl::StrCat("generation ", assignment.generation,
                         " assigned after ", last));
  }
  last = assignment.generation;
  CheckPlacements(assignment);
  if (assignment.makes_no_step) {
    Count(assignment.state_source_rank < 0 ? "saving generation"
                                           : "copying generation");
    for (const Member& member :
         core_.state().FindJob(assignment.job_id)->members) {
      if (ProtocolOf(member.identity.incarnation) < kLeaveProtocol) {
        Violate(absl::StrCat("generation ", assignment.generation,
                             " makes no step, which not all know"));
      }
    }
  }
  const bool is_lockstep =
      core_.state().FindJob(assignment.job_id)->sharding.is_lockstep;
  int64_t& told = told_[assignment.job_id];
  told = std::max(told, assignment.resume_step);
  if (is_lockstep && assignment.resume_step < applied_[assignment.job_id]) {
    Violate(absl::StrCat("job ", assignment.job_id, " goes on after step ",
                         assignment.resume_step, ", but step ",
                         applied_[assignment.job_id], " was applied"));
  }
  const bool is_source = assignment.self.rank == assignment.state_source_rank;
  if (assignment.is_newcomer && assignment.placements == nullptr &&
      (assignment.state_source_rank < 0 || assignment.resume_step == 0)) {
    Violate(absl::StrCat("newcomer ", assignment.self.worker,
                         " has no state to copy"));
  }
  if (assignment.is_newcomer && is_source) Violate("a newcomer is the source");
  const auto [exchange, is_first] =
      exchanges_.try_emplace(assignment.generation);
  if (is_first) {
    exchange->second.source_rank = assignment.state_source_rank;
    exchange->second.integrity = assignment.integrity;
  }
  if (exchange->second.source_rank != assignment.state_source_rank) {
    Violate("members differ in their source");
  }
  if (exchange->second.integrity != assignment.integrity) {
    Violate("members differ in the integrity of their frames");
  }
  CheckIntegrity(assignment);
}

void RandomCluster::CheckIntegrity(const SendAssignment& assignment) {
  const std::vector<Member>& members =
      core_.state().FindJob(assignment.job_id)->members;
  const bool all_can =
      std::all_of(members.begin(), members.end(), [](const Member& member) {
        return ProtocolOf(member.identity.incarnation) >= kIntegrityProtocol;
      });
  const bool are_checked =
      assignment.integrity != v1::FRAME_INTEGRITY_UNSPECIFIED;
  Count(are_checked ? "checked generation" : "unchecked generation");
  if (are_checked == all_can) return;
  Violate(absl::StrCat("generation ", assignment.generation,
                       are_checked ? " checks frames, which not all can"
                                   : " does not check frames, and all can"));
}

void RandomCluster::CheckPlacements(const SendAssignment& assignment) {
  const Job& job = *core_.state().FindJob(assignment.job_id);
  if (assignment.placements == nullptr) {
    if (job.sharding.shards > 0) Violate("shards without holders");
    return;
  }
  if (static_cast<int>(assignment.placements->size()) != job.sharding.shards) {
    Violate("not all shards have holders");
  }
  const auto is_host = [&job](int rank) {
    return rank >= 0 && rank < static_cast<int>(job.members.size()) &&
           HoldsShards(job, job.members[rank].identity.role);
  };
  for (const ShardPlacement& shard : *assignment.placements) {
    if (!is_host(shard.primary_rank) ||
        (shard.backup_rank >= 0 && !is_host(shard.backup_rank)) ||
        (shard.source_rank >= 0 && !is_host(shard.source_rank))) {
      Violate("a shard is with one that holds none");
    }
    if ((shard.source_rank < 0) && assignment.resume_step > 0) {
      Violate("a shard has no source");
    }
  }
}

bool RandomCluster::IsBeingReleased(const Process& process) {
  return std::any_of(process.down.begin(), process.down.end(),
                     [](const Action& action) {
                       return std::holds_alternative<SendRelease>(action);
                     });
}

// The members of the new generation, as they halted, do not hold every shard.
void RandomCluster::CheckRollback(const GenerationFormedRecord& formed) {
  const Job& job = *core_.state().FindJob(formed.job_id);
  if (job.sharding.shards == 0) return;
  Count("rollback of shards");
  // Or its last holders left, once a checkpoint was written.
  if (!lossy_jobs_.contains(formed.job_id) && job.saved_step != job.best_step) {
    Violate(absl::StrCat("job ", formed.job_id,
                         " is rolled back, but nobody was lost"));
  }
  if (job.generation != formed.generation) return;
  const int64_t made = std::max(applied_[formed.job_id], told_[formed.job_id]);
  std::set<int> held;
  for (const Member& known : job.members) {
    const MemberIdentity& member = known.identity;
    const auto it = processes_.find(member.worker);
    // What is from before an earlier rollback, which was overtaken, counts no
    // more. A member that was lost in between and has come back has no part in
    // the earlier job, and has been told that.
    if (known.since == formed.generation || it == processes_.end() ||
        it->second.job_id != formed.job_id ||
        it->second.incarnation != member.incarnation ||
        it->second.generation < rollbacks_[formed.job_id] ||
        it->second.mode != Mode::kHalted || IsBeingReleased(it->second)) {
      continue;
    }
    for (const auto& [shard, step] : it->second.shards) {
      if (!job.sharding.is_lockstep || step >= made) {
        held.insert(shard);
      }
    }
  }
  if (static_cast<int>(held.size()) == job.sharding.shards) {
    Violate(absl::StrCat("job ", job.id,
                         " is rolled back, but its members hold all shards"));
  }
}

// A leaver that holds shards is a member only if another member takes them
// over, or if a checkpoint is written. (Nobody joins a generation that has no
// step to make.)
void RandomCluster::CheckLeavers(const GenerationFormedRecord& formed) {
  const Job& job = *core_.state().FindJob(formed.job_id);
  if (formed.resume_step >= job.total_steps || job.closing == Closing::kSave) {
    return;
  }
  bool has_leaver = false;
  bool has_taker = false;
  for (const MemberIdentity& member : formed.members) {
    if (!HoldsShards(job, member.role)) continue;
    const Worker* const worker = core_.state().FindWorker(member.worker);
    // A member that is gone in the same step is as good as one that stays.
    const bool is_leaver = worker != nullptr && IsLeaving(*worker);
    (is_leaver ? has_leaver : has_taker) = true;
  }
  if (has_leaver) Count("hand-over");
  if (has_leaver && !has_taker) {
    Violate(absl::StrCat("nobody takes over from those who leave generation ",
                         formed.generation));
  }
}

// `actions` are those of one step of the core.
void RandomCluster::CheckNotRelieved(const std::vector<Action>& actions) {
  std::string job_id;
  int let_go = 0;
  for (const Action& action : actions) {
    const auto* const emit = std::get_if<EmitEvent>(&action);
    if (emit == nullptr || emit->event.job_id().empty()) continue;
    if (emit->event.type() == "worker.not_relieved") {
      job_id = emit->event.job_id();
      ++let_go;
    } else if (IsLoss(emit->event)) {
      lossy_jobs_.insert(emit->event.job_id());
    }
  }
  if (let_go == 0) return;
  Count("not relieved");
  // Leavers cannot hand over what is lost with others.
  if (!lossy_jobs_.insert(job_id).second) return;
  const State& state = core_.state();
  const Job& job = *state.FindJob(job_id);
  // Those whose copies are needed stay until then, and are no more than these.
  const bool had_room = job.sharding.servers > 0 || let_go < job.max_workers;
  for (const auto& [name, worker] : state.workers) {
    if (!HoldsShards(job, worker.role)) continue;
    const bool is_member =
        worker.job_id == job.id && worker.state == v1::WORKER_STATE_ASSIGNED;
    const bool has_joined =
        is_member && IsForming(job) &&
        job.members[static_cast<size_t>(worker.rank)].since == job.generation;
    const std::vector<const Worker*> idle =
        IdlePool(state, job, worker.role).Packed(Hosts::kAll);
    const bool is_free =
        std::find(idle.begin(), idle.end(), &worker) != idle.end();
    const bool could_join = had_room && (has_joined || is_free) &&
                            job.links.BadPeersOf(name, state.now).empty();
    if ((is_member && !has_joined) || could_join) {
      Violate(absl::StrCat("who leaves ", job.id, " is not relieved, though ",
                           name, " is there"));
    }
  }
}

// The job goes on after the event's step, though it may have got further:
// whoever holds more has been waited for. (Those who leave do not say for how
// long they stay, so they cut no wait short.)
void RandomCluster::CheckStepsLost(const v1::Event& event) {
  Count("steps lost");
  int64_t& applied = applied_[event.job_id()];
  if (event.step() >= applied) return;
  const Job& job = *core_.state().FindJob(event.job_id());
  for (const auto& [name, process] : processes_) {
    const bool holds_more = std::ranges::any_of(
        process.shards,
        [&](const auto& held) { return held.second > event.step(); });
    const auto lost_at = lost_at_.find(name);
    const Worker* const worker = core_.state().FindWorker(name);
    const bool is_member = worker != nullptr && worker->job_id == job.id;
    if (!holds_more || !job.sharding.is_lockstep || is_member ||
        lost_at == lost_at_.end() || process.job_id != job.id ||
        process.generation < job.told_generation ||
        now_ >= lost_at->second + config_.state_wait) {
      continue;
    }
    Violate(absl::StrCat("job ", job.id, " goes on after step ", event.step(),
                         ", and ", name, " holds more"));
  }
  applied = event.step();
}

bool RandomCluster::IsLoss(const v1::Event& event) {
  return event.type() == "worker.lost" || event.type() == "worker.left" ||
         event.type() == "worker.failed";
}

void RandomCluster::CheckReply(const ReplyToUser& reply) {
  if (submits_.contains(reply.request) && reply.status.ok() &&
      !durable_jobs_.contains(reply.job_id)) {
    Violate(absl::StrCat("job ", reply.job_id, " told before it was durable"));
  }
}

void RandomCluster::CheckMembers(const Job& job) {
  if (job.generation > 0 && job.state() == v1::JOB_STATE_GATHERING)
    Count("wait");
  for (const Member& member : job.members) {
    if (IsEnded(job.state()) || member.is_lost) continue;
    const Worker* const worker =
        core_.state().FindWorker(member.identity.worker);
    if (worker == nullptr || worker->job_id != job.id ||
        worker->incarnation != member.identity.incarnation) {
      Violate(absl::StrCat("member ", member.identity.worker, " of ", job.id,
                           " is not there"));
    }
    if (job.state() == v1::JOB_STATE_GATHERING && !member.halted.has_value()) {
      Violate(absl::StrCat("job ", job.id, " waits, but ",
                           member.identity.worker, " has not halted"));
    }
  }
}

void RandomCluster::CheckState() {
  const State& state = core_.state();
  int trains = 0;
  for (const auto& [number, job] : state.jobs) {
    CheckMembers(job);
    if (IsEnded(job.state()) && !durable_ends_.contains(job.id)) {
      Violate(absl::StrCat("job ", job.id, " shown as ended before"));
    }
    const bool is_active =
        !IsEnded(job.state()) && job.state() != v1::JOB_STATE_QUEUED;
    if (is_active != state.active_jobs.contains(number)) {
      Violate(absl::StrCat("job ", job.id, " is ", is_active ? "" : "not ",
                           "active, and is not known as that"));
    }
    if (job.state() == v1::JOB_STATE_RUNNING) ++trains;
  }
  if (trains > 1) Count("side by side");
}

}  // namespace ringmaster::coordinator
