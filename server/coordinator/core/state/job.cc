#include "server/coordinator/core/state/job.h"

#include <algorithm>
#include <tuple>

namespace ringmaster::coordinator {

int MemberCount(const Job& job, v1::Role role) {
  const auto first_server = std::partition_point(
      job.members.begin(), job.members.end(), [](const Member& member) {
        return member.identity.role == v1::ROLE_WORKER;
      });
  return static_cast<int>(role == v1::ROLE_WORKER
                              ? first_server - job.members.begin()
                              : job.members.end() - first_server);
}

int AliveCount(const Job& job, v1::Role role) {
  return static_cast<int>(std::count_if(
      job.members.begin(), job.members.end(), [role](const Member& member) {
        return !member.is_lost && member.identity.role == role;
      }));
}

int SeasonedCount(const Job& job) {
  return static_cast<int>(std::count_if(
      job.members.begin(), job.members.end(), [](const Member& member) {
        return member.identity.role == v1::ROLE_WORKER && !member.is_lost &&
               !member.is_newcomer;
      }));
}

int LeastCount(const Job& job, v1::Role role) {
  return role == v1::ROLE_WORKER ? job.min_workers
                                 : std::min(job.sharding.servers, 1);
}

int MostCount(const Job& job, v1::Role role) {
  return role == v1::ROLE_WORKER ? job.max_workers : job.sharding.servers;
}

NewestComplete NewestCompleteOf(const Job& job) {
  NewestComplete newest;
  for (const Member& member : job.members) {
    if (member.is_lost || !member.halted.has_value()) continue;
    const HaltedAnswer& answer = *member.halted;
    if (answer.complete_step == 0 || answer.generation < newest.generation)
      continue;
    if (answer.generation > newest.generation) newest = {answer.generation, 0};
    newest.step = std::max(newest.step, answer.complete_step);
  }
  // It has made none itself: what it went on from is of those before.
  if (newest.generation == job.told_generation &&
      newest.step <= job.resume_step) {
    return {};
  }
  return newest;
}

bool IsSuperseded(const HaltedAnswer& answer, const NewestComplete& newest) {
  return answer.generation != 0 && answer.generation < newest.generation &&
         answer.applied_step < newest.step;
}

bool HoldsShards(const Job& job, v1::Role role) {
  return job.sharding.shards > 0 &&
         (role == v1::ROLE_PARAMETER_SERVER) == (job.sharding.servers > 0);
}

v1::Role HolderRole(const Job& job) {
  return job.sharding.shards > 0 && !job.sharding.IsColocated()
             ? v1::ROLE_PARAMETER_SERVER
             : v1::ROLE_WORKER;
}

int64_t CountedStep(const Job& job, v1::Role role, int64_t applied_step) {
  return role == v1::ROLE_WORKER ? applied_step
                                 : std::min(applied_step, job.best_step);
}

void NoteAppliedStep(const Job& job, Worker& worker, Member& member,
                     int64_t step) {
  worker.step = std::max(worker.step, step);
  member.step = CountedStep(job, member.identity.role, worker.step);
}

bool CountsSteps(const Job& job, const Member& member) {
  return job.counted_since < job.generation || member.prepared.has_value() ||
         job.is_recovered;
}

bool IsSuspected(const Job& job, int rank) {
  return std::any_of(
      job.suspicions.reports.begin(), job.suspicions.reports.end(),
      [&](const SuspicionReport& report) { return report.peer_rank == rank; });
}

bool IsNew(const Job& job) { return job.start_time == absl::InfinitePast(); }

bool IsAhead(const Job& a, const Job& b) {
  const auto key = [](const Job& job) {
    return std::tuple(-job.priority, job.place.borrows, job.place.turn,
                      job.number);
  };
  return key(a) < key(b);
}

HaltIntent IntentOf(const Job& job) {
  if (const auto* const halting = std::get_if<stage::Halting>(&job.stage))
    return halting->intent;
  return job.cancel_reason.has_value() ? HaltIntent::kCancel
                                       : HaltIntent::kReform;
}

stage::Halting& ToHalting(Job& job) {
  if (auto* const halting = std::get_if<stage::Halting>(&job.stage))
    return *halting;
  return job.stage.emplace<stage::Halting>(stage::Halting{IntentOf(job)});
}

bool IsPausing(const Job& job) {
  return job.growth.paused_generation != 0 &&
         job.growth.paused_generation == job.generation;
}

}  // namespace ringmaster::coordinator
