#include "server/coordinator/core/state/state.h"

#include <algorithm>
#include <string>
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
