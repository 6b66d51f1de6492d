#include "server/coordinator/core/state/state.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/protocol/enum_name.h"
#include "common/status/reason.h"

namespace ringmaster::coordinator {
namespace {

// Names come from users, so messages repeat only so much of them.
constexpr size_t kMaxShownName = 100;
constexpr size_t kMaxListedJobs = 10;

}  // namespace

bool IsLeaving(const Worker& worker) {
  return worker.state == v1::WORKER_STATE_DRAINING || worker.is_let_go ||
         worker.has_failed;
}

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
      job.suspicions.begin(), job.suspicions.end(),
      [&](const SuspicionReport& report) { return report.peer_rank == rank; });
}

bool IsNew(const Job& job) { return job.start_time == absl::InfinitePast(); }

bool IsAhead(const Job& a, const Job& b) {
  const auto key = [](const Job& job) {
    return std::tuple(-job.priority, job.borrows, job.turn, job.number);
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
  return job.paused_generation != 0 && job.paused_generation == job.generation;
}

absl::StatusOr<const Job*> State::LookUpJob(std::string_view id_or_name) const {
  const Job* found = nullptr;
  std::vector<std::string> live;
  for (const auto& [number, job] : jobs) {
    if (job.id == id_or_name) return &job;
    if (job.name != id_or_name) continue;
    if (!IsEnded(job.state()))
      live.push_back(absl::StrCat(job.id, " (", EnumName(job.state()), ")"));
    if (found == nullptr || !IsEnded(job.state()) || IsEnded(found->state()))
      found = &job;
  }
  const std::string shown(id_or_name.substr(0, kMaxShownName));
  if (found == nullptr) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("no job has the id or name ", shown)),
        reason::kJobNotFound);
  }
  if (live.size() > 1) {
    const size_t more = live.size() - std::min(live.size(), kMaxListedJobs);
    live.resize(live.size() - more);
    return WithReason(
        absl::FailedPreconditionError(
            absl::StrCat("several live jobs have the name ", shown,
                         "; give the id of one: ", absl::StrJoin(live, ", "),
                         more > 0 ? absl::StrCat(" and ", more, " more") : "")),
        reason::kJobAmbiguous);
  }
  return found;
}

const Job* State::FindJob(std::string_view id) const {
  // It ends with the job's number.
  int64_t number = 0;
  const std::string_view digits = id.substr(id.rfind('-') + 1);
  if (absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                       &number)) {
    const auto known = jobs.find(number);
    if (known != jobs.end() && known->second.id == id) return &known->second;
  }
  return nullptr;
}

Job* State::FindJob(std::string_view id) {
  return const_cast<Job*>(std::as_const(*this).FindJob(id));
}

std::vector<const Job*> State::ActiveJobs() const {
  std::vector<const Job*> active;
  for (const int64_t number : active_jobs) active.push_back(&jobs.at(number));
  return active;
}

std::vector<Job*> State::ActiveJobs() {
  std::vector<Job*> active;
  for (const int64_t number : active_jobs) active.push_back(&jobs.at(number));
  return active;
}

const Job* State::JobOf(const Worker& worker) const {
  const Job* const job =
      worker.job_id.empty() ? nullptr : FindJob(worker.job_id);
  return job != nullptr && active_jobs.contains(job->number) ? job : nullptr;
}

Job* State::JobOf(const Worker& worker) {
  return const_cast<Job*>(std::as_const(*this).JobOf(worker));
}

const Worker* State::FindWorker(std::string_view name) const {
  const auto it = workers.find(name);
  return it == workers.end() ? nullptr : &it->second;
}

Worker* State::FindWorker(std::string_view name) {
  return const_cast<Worker*>(std::as_const(*this).FindWorker(name));
}

bool IsInForce(const State& state, const HostQuarantine& quarantine) {
  if (quarantine.job_id.empty()) return true;
  const Job* const job = state.FindJob(quarantine.job_id);
  return job != nullptr && state.active_jobs.contains(job->number);
}

const HostQuarantine* State::QuarantineOf(const Job& job,
                                          std::string_view host_key) const {
  const HostQuarantine* found = nullptr;
  for (const HostQuarantine& quarantine : quarantines) {
    const bool is_of_job =
        quarantine.job_id.empty() || quarantine.job_id == job.id;
    if (quarantine.host_key != host_key || !is_of_job) continue;
    if (found == nullptr || quarantine.is_unfit) found = &quarantine;
  }
  return found;
}

const Cordon* State::CordonOf(const Worker& worker) const {
  const Cordon* found = nullptr;
  for (const std::string* const target : {&worker.name, &worker.host}) {
    const auto it = cordons.find(*target);
    if (it == cordons.end()) continue;
    const Cordon& cordon = it->second;
    const bool is_stricter =
        found == nullptr ||
        (cordon.drains && (!found->drains || cordon.due <= found->due));
    if (is_stricter) found = &cordon;
  }
  return found;
}

const Worker* State::FindSession(SessionId session) const {
  const auto it = sessions.find(session);
  return it == sessions.end() ? nullptr : FindWorker(it->second);
}

Worker* State::FindSession(SessionId session) {
  return const_cast<Worker*>(std::as_const(*this).FindSession(session));
}

int State::QueuePosition(const Job& job) const {
  if (job.state() != v1::JOB_STATE_QUEUED) return 0;
  const std::map<const Job*, int> positions = QueuePositions(*this);
  const auto it = positions.find(&job);
  return it == positions.end() ? 0 : it->second;
}

std::map<const Job*, int> QueuePositions(const State& state) {
  std::vector<const Job*> queue;
  for (const auto& [number, job] : state.jobs) {
    if (job.state() == v1::JOB_STATE_QUEUED && !job.is_suspended) {
      queue.push_back(&job);
    }
  }
  std::sort(queue.begin(), queue.end(),
            [](const Job* a, const Job* b) { return IsAhead(*a, *b); });
  std::map<const Job*, int> positions;
  int before = state.active_jobs.empty() ? 0 : 1;
  for (const Job* const job : queue) positions.emplace(job, before++);
  return positions;
}

}  // namespace ringmaster::coordinator
