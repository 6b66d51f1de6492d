#include "server/coordinator/core/life/silence.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {
namespace {

// The members of the jobs that train, not lost, and those of them that are silent:
// a worker that lives sends nearly two beats in half a lease.
struct Members {
  size_t all = 0;
  size_t silent = 0;
  size_t silent_hosts = 0;

  [[nodiscard]] bool AreMostlySilent() const {
    // Two, or one host, may well be lost by themselves.
    return silent == all ||
           (silent > 2 && 2 * silent > all && silent_hosts > 1);
  }
};

bool IsSilent(const Turn& turn, const Worker& worker) {
  return (worker.session == 0 && !worker.is_cut_off) ||
         LastSign(turn.state, worker) + turn.config.lease / 2 <= turn.now;
}

Members Count(const Turn& turn, const std::vector<Job*>& jobs) {
  Members members;
  std::set<std::string_view> hosts;
  for (const Job* const job : jobs) {
    for (const Member& member : job->members) {
      if (member.is_lost) continue;
      ++members.all;
      const Worker* const worker =
          turn.state.FindWorker(member.identity.worker);
      if (worker != nullptr && !IsSilent(turn, *worker)) continue;
      ++members.silent;
      hosts.insert(member.identity.host_key);
    }
  }
  members.silent_hosts = hosts.size();
  return members;
}

bool IsAnybodyHeard(const Turn& turn) {
  return std::any_of(turn.state.workers.begin(), turn.state.workers.end(),
                     [&](const auto& entry) {
                       const Worker& worker = entry.second;
                       return worker.session != 0 &&
                              worker.last_heard + turn.config.lease > turn.now;
                     });
}

// Nobody can be blamed for standing still who is not heard.
void HoldProgress(const Turn& turn, Job& job) {
  job.last_progress = turn.now;
  for (Member& member : job.members) member.last_progress.reset();
}

void Detach(Turn& turn, Job& job, Worker& worker) {
  turn.state.sessions.erase(worker.session);
  worker.session = 0;
  worker.state = v1::WORKER_STATE_DETACHED;
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "worker.detached", job, worker.name,
            absl::StrCat(Describe(job.members[worker.rank].identity),
                         " is no longer connected, and is waited for"));
}

// Returns true if the members of `job` would be waited for.
bool Trains(const Turn& turn, const Job& job) {
  return job.state() == v1::JOB_STATE_RUNNING && !job.ending.has_value() &&
         !job.cancel_reason.has_value() && !IsOutdated(turn.state);
}

std::vector<Job*> JobsThatTrain(const Turn& turn) {
  std::vector<Job*> jobs = turn.state.ActiveJobs();
  std::erase_if(jobs, [&turn](const Job* job) { return !Trains(turn, *job); });
  return jobs;
}

// The job that trains and of which `worker` is a member, or null.
Job* TrainingJobOf(Turn& turn, const Worker& worker) {
  if (MemberOf(turn.state, worker) == nullptr) return nullptr;
  Job* const job = turn.state.JobOf(worker);
  return Trains(turn, *job) ? job : nullptr;
}

}  // namespace

MonotonicTime LastSign(const State& state, const Worker& worker) {
  if (MemberOf(state, worker) == nullptr) return worker.last_heard;
  const Job* const job = state.JobOf(worker);
  if (worker.generation != job->generation) return worker.last_heard;
  return std::max(
      worker.last_heard,
      job->life.ProvenAt(job->generation).value_or(worker.last_heard));
}

bool AreMostSilent(const Turn& turn) {
  const Members members = Count(turn, JobsThatTrain(turn));
  return members.all > 0 && members.AreMostlySilent();
}

bool IsCommonSilence(Turn& turn) {
  std::optional<CommonSilence>& silence = turn.state.common_silence;
  const std::vector<Job*> jobs = JobsThatTrain(turn);
  if (jobs.empty()) {
    silence.reset();
    return false;
  }
  const Members members = Count(turn, jobs);
  if (!silence.has_value()) {
    if (!members.AreMostlySilent()) return false;
    silence = {turn.now, turn.now + turn.config.reattach_budget};
    for (const Job* const job : jobs) {
      turn.Emit(
          v1::EVENT_SEVERITY_WARNING, "coordinator.hears_nobody", *job, "",
          absl::StrCat("nothing heard of ", members.silent, " of ", members.all,
                       " members at the same time: it may be the coordinator "
                       "that is cut off, so they are waited for"));
    }
  }
  if (!IsAnybodyHeard(turn)) {
    silence->until = turn.now + turn.config.reattach_budget;
  }
  if (members.silent == 0 || silence->until <= turn.now) {
    silence.reset();
    return false;
  }
  for (Job* const job : jobs) HoldProgress(turn, *job);
  // Streams that were cut end when what was held up comes through.
  turn.state.forgiving_until = turn.now + turn.config.reattach_budget;
  return true;
}

void NoteStall(Turn& turn, absl::Duration delay) {
  if (delay < turn.config.lease) return;
  turn.state.forgiving_until = turn.now + turn.config.reattach_budget;
}

bool DetachInSilence(Turn& turn, Worker& worker) {
  Job* const job = TrainingJobOf(turn, worker);
  if (job == nullptr) return false;
  if (turn.state.forgiving_until <= turn.now) return false;
  job->reattach_deadline = turn.now + turn.config.reattach_budget;
  job->message = "waits for its members to attach again";
  HoldProgress(turn, *job);
  Detach(turn, *job, worker);
  return true;
}

bool DetachCutOff(Turn& turn, Worker& worker) {
  Job* const job = TrainingJobOf(turn, worker);
  if (job == nullptr) return false;
  const MonotonicTime lease_end =
      LastSign(turn.state, worker) + turn.config.lease;
  // By itself, its lease is over: only the steps of its peers keep it.
  const bool was_silent = worker.last_heard + turn.config.lease <= turn.now;
  if (!was_silent || lease_end <= turn.now || IsSuspected(*job, worker.rank)) {
    return false;
  }
  worker.is_cut_off = true;
  turn.state.lease_check = std::min(turn.state.lease_check, lease_end);
  Detach(turn, *job, worker);
  return true;
}

}  // namespace ringmaster::coordinator
