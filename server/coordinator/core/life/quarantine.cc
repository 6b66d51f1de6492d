#include "server/coordinator/core/life/quarantine.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

// Workers that `job` has or could have without those of `host_key`.
int WorkersWithout(const State& state, const Job& job,
                   std::string_view host_key) {
  return static_cast<int>(std::count_if(
      state.workers.begin(), state.workers.end(), [&](const auto& entry) {
        const Worker& worker = entry.second;
        if (worker.role != v1::ROLE_WORKER) return false;
        if (worker.job_id == job.id) return true;
        return IsIdle(worker) && IsOnOffer(state, job, worker) &&
               !IsOfAnother(job, worker) && worker.host_key != host_key &&
               state.QuarantineOf(job, worker.host_key) == nullptr;
      }));
}

// A host stands out only among others: on a cluster of one, or where the others
// are out already, leaving it alone helps nobody.
bool HasOtherHost(const State& state, const Job& job,
                  std::string_view host_key) {
  return std::any_of(
      state.workers.begin(), state.workers.end(), [&](const auto& entry) {
        const Worker& worker = entry.second;
        return worker.host_key != host_key &&
               (worker.job_id == job.id || IsOnOffer(state, job, worker)) &&
               state.QuarantineOf(job, worker.host_key) == nullptr;
      });
}

void SetCheck(State& state) {
  state.quarantine_check = MonotonicTime::InfiniteFuture();
  for (const HostQuarantine& quarantine : state.quarantines) {
    state.quarantine_check = std::min(state.quarantine_check, quarantine.until);
  }
}

// Leaves the host out for all jobs if `is_for_all`.
void Quarantine(Turn& turn, const Job& job, const Worker& worker, Blame blame,
                bool is_for_all) {
  const absl::Duration time = turn.config.quarantine_time;
  const std::string text =
      absl::StrCat("the workers of host ", worker.host, " are left out",
                   is_for_all ? "" : absl::StrCat(" of job ", job.id), " for ",
                   absl::FormatDuration(time), ": ", blame.reason);
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "host.quarantined", job, worker.name,
            text);
  HostQuarantinedRecord record;
  record.host_key = worker.host_key;
  record.host = worker.host;
  record.job_id = job.id;
  record.reason = blame.reason;
  record.time = turn.time;
  record.end_time = turn.time + time;
  record.is_of_job = !is_for_all;
  record.exit_code = blame.exit_code;
  record.is_unfit = blame.is_unfit;
  turn.state.quarantines.push_back(
      {worker.host_key, worker.host, record.end_time, std::move(blame.reason),
       turn.now + time, is_for_all ? std::string() : job.id, blame.exit_code,
       blame.is_unfit});
  SetCheck(turn.state);
  turn.Touch();
  turn.Persist(std::move(record));
}

// The job before `job` that leaves that host out, if any; its end changes
// nothing about that.
const HostQuarantine* OfOtherJob(const State& state, const Job& job,
                                 std::string_view host_key) {
  const auto it = std::find_if(
      state.quarantines.begin(), state.quarantines.end(),
      [&](const HostQuarantine& quarantine) {
        return quarantine.host_key == host_key && !quarantine.job_id.empty() &&
               quarantine.job_id != job.id;
      });
  return it == state.quarantines.end() ? nullptr : &*it;
}

}  // namespace

bool CountsAgainstHost(v1::EvidenceKind kind) {
  return kind == v1::EVIDENCE_KIND_STREAM_BROKEN ||
         kind == v1::EVIDENCE_KIND_LEASE_EXPIRED ||
         kind == v1::EVIDENCE_KIND_NO_PROGRESS ||
         kind == v1::EVIDENCE_KIND_PEER_REPORT ||
         kind == v1::EVIDENCE_KIND_FALSE_REPORT ||
         kind == v1::EVIDENCE_KIND_HALT_UNANSWERED;
}

bool AddHostFault(std::deque<HostFault>& faults, HostFault fault,
                  absl::Duration window) {
  while (!faults.empty() && faults.front().time + window <= fault.time) {
    faults.pop_front();
  }
  const bool is_known =
      std::any_of(faults.begin(), faults.end(), [&](const HostFault& other) {
        return other.generation == fault.generation &&
               other.host_key == fault.host_key;
      });
  if (!is_known) faults.push_back(std::move(fault));
  return !is_known;
}

std::string QuarantineReason(const std::deque<HostFault>& faults,
                             std::string_view job_id, std::string_view host_key,
                             const Config& config) {
  int64_t all = 0;
  int64_t count = 0;
  for (const HostFault& fault : faults) {
    if (fault.job_id != job_id) continue;
    ++all;
    if (fault.host_key == host_key) ++count;
  }
  if (config.quarantine_faults == 0 || count < config.quarantine_faults ||
      2 * count < all) {
    return "";
  }
  return absl::StrCat(count, " of ", all, " incidents within ",
                      absl::FormatDuration(config.quarantine_window));
}

void NoteHostFault(Turn& turn, const Job& job, const Worker& gone,
                   const v1::Verdict& verdict) {
  if (verdict.evidence().empty() ||
      !CountsAgainstHost(verdict.evidence(0).kind()) ||
      !AddHostFault(turn.state.host_faults,
                    {turn.now, job.generation, gone.host_key, job.id},
                    turn.config.quarantine_window) ||
      turn.state.QuarantineOf(job, gone.host_key) != nullptr) {
    return;
  }
  std::string reason = QuarantineReason(turn.state.host_faults, job.id,
                                        gone.host_key, turn.config);
  if (reason.empty() || !HasOtherHost(turn.state, job, gone.host_key) ||
      WorkersWithout(turn.state, job, gone.host_key) < job.min_workers) {
    return;
  }
  LeaveOutHost(turn, job, gone, {absl::StrCat("they caused ", reason)});
}

void LeaveOutHost(Turn& turn, const Job& job, const Worker& worker,
                  Blame blame) {
  const HostQuarantine* const other =
      OfOtherJob(turn.state, job, worker.host_key);
  const std::string why =
      other == nullptr ? std::string()
                       : absl::StrCat("they failed in job ", other->job_id,
                                      " and in job ", job.id);
  // A fault of the job says nothing of the host to other jobs.
  const bool may_be_job =
      blame.exit_code == static_cast<int>(ExitCode::kUsage) && !blame.is_unfit;
  Quarantine(turn, job, worker, std::move(blame), /*is_for_all=*/false);
  if (other != nullptr && !may_be_job &&
      GoesWellElsewhere(turn.state, job, worker.role, worker.host_key)) {
    Quarantine(turn, job, worker, {why}, /*is_for_all=*/true);
  }
}

bool HasFailedOn(const State& state, const Job& job, std::string_view host_key,
                 int exit_code) {
  return std::any_of(
      state.quarantines.begin(), state.quarantines.end(),
      [&](const HostQuarantine& quarantine) {
        return quarantine.job_id == job.id && quarantine.exit_code != 0 &&
               (exit_code == 0 || quarantine.exit_code == exit_code) &&
               quarantine.host_key == host_key;
      });
}

bool GoesWellElsewhere(const State& state, const Job& job, v1::Role role,
                       std::string_view host_key) {
  if (job.has_prepared || job.best_step > 0) return true;
  return std::any_of(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        const MemberIdentity& identity = member.identity;
        return !member.is_lost && member.prepared.has_value() &&
               identity.role == role && identity.host_key != host_key &&
               !HasFailedOn(state, job, identity.host_key);
      });
}

void ForgetFailures(State& state, std::string_view job_id) {
  std::erase_if(state.quarantines, [&](const HostQuarantine& quarantine) {
    return quarantine.job_id == job_id && quarantine.exit_code != 0;
  });
}

void OnQuarantineCheck(Turn& turn) {
  auto& quarantines = turn.state.quarantines;
  for (auto it = quarantines.begin(); it != quarantines.end();) {
    if (it->until > turn.now) {
      ++it;
      continue;
    }
    // Nobody asks for it once its job has ended.
    if (IsInForce(turn.state, *it)) {
      turn.Emit(v1::EVENT_SEVERITY_INFO, "host.released", "",
                absl::StrCat("the workers of host ", it->host,
                             " may be taken again"));
    }
    it = quarantines.erase(it);
  }
  SetCheck(turn.state);
  turn.Touch();
  turn.ScheduleSoon();
}

void BeginQuarantines(Turn& turn) {
  std::erase_if(turn.state.quarantines,
                [&turn](const HostQuarantine& quarantine) {
                  return quarantine.end_time <= turn.time;
                });
  for (HostQuarantine& quarantine : turn.state.quarantines) {
    quarantine.until = turn.now + (quarantine.end_time - turn.time);
  }
  SetCheck(turn.state);
  turn.Touch();
}

}  // namespace ringmaster::coordinator
