#include "server/coordinator/core/life/quarantine.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/placement/rendezvous.h"

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
        return IsIdle(worker) && worker.host_key != host_key &&
               state.QuarantineOf(worker.host_key) == nullptr;
      }));
}

// A host stands out only among others: on a cluster of one, or where the others
// are out already, leaving it alone helps nobody.
bool HasOtherHost(const State& state, std::string_view host_key) {
  return std::any_of(state.workers.begin(), state.workers.end(),
                     [&](const auto& entry) {
                       const Worker& worker = entry.second;
                       return worker.host_key != host_key &&
                              state.QuarantineOf(worker.host_key) == nullptr;
                     });
}

void SetCheck(State& state) {
  state.quarantine_check = MonotonicTime::InfiniteFuture();
  for (const HostQuarantine& quarantine : state.quarantines) {
    state.quarantine_check = std::min(state.quarantine_check, quarantine.until);
  }
}

void Quarantine(Turn& turn, const Job& job, const Worker& gone,
                std::string reason) {
  const absl::Duration time = turn.config.quarantine_time;
  HostQuarantinedRecord record;
  record.host_key = gone.host_key;
  record.host = gone.host;
  record.job_id = job.id;
  record.reason = reason;
  record.time = turn.time;
  record.end_time = turn.time + time;
  turn.Emit(
      v1::EVENT_SEVERITY_WARNING, "host.quarantined", gone.name,
      absl::StrCat("the workers of host ", gone.host, " are left out for ",
                   absl::FormatDuration(time), ": they caused ", reason));
  turn.state.quarantines.push_back({gone.host_key, gone.host, record.end_time,
                                    std::move(reason), turn.now + time});
  SetCheck(turn.state);
  turn.Touch();
  turn.Persist(std::move(record));
}

}  // namespace

bool CountsAgainstHost(v1::EvidenceKind kind) {
  return kind == v1::EVIDENCE_KIND_STREAM_BROKEN ||
         kind == v1::EVIDENCE_KIND_LEASE_EXPIRED ||
         kind == v1::EVIDENCE_KIND_NO_PROGRESS ||
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
                             std::string_view host_key, const Config& config) {
  const auto count = std::count_if(
      faults.begin(), faults.end(),
      [&](const HostFault& fault) { return fault.host_key == host_key; });
  if (config.quarantine_faults == 0 || count < config.quarantine_faults ||
      2 * static_cast<size_t>(count) < faults.size()) {
    return "";
  }
  return absl::StrCat(count, " of ", faults.size(), " incidents within ",
                      absl::FormatDuration(config.quarantine_window));
}

void NoteHostFault(Turn& turn, const Job& job, const Worker& gone,
                   const v1::Verdict& verdict) {
  if (verdict.evidence().empty() ||
      !CountsAgainstHost(verdict.evidence(0).kind()) ||
      !AddHostFault(turn.state.host_faults,
                    {turn.now, job.generation, gone.host_key},
                    turn.config.quarantine_window) ||
      turn.state.QuarantineOf(gone.host_key) != nullptr) {
    return;
  }
  std::string reason =
      QuarantineReason(turn.state.host_faults, gone.host_key, turn.config);
  if (reason.empty() || !HasOtherHost(turn.state, gone.host_key) ||
      WorkersWithout(turn.state, job, gone.host_key) < job.min_workers) {
    return;
  }
  Quarantine(turn, job, gone, std::move(reason));
}

void OnQuarantineCheck(Turn& turn) {
  auto& quarantines = turn.state.quarantines;
  for (auto it = quarantines.begin(); it != quarantines.end();) {
    if (it->until > turn.now) {
      ++it;
      continue;
    }
    turn.Emit(
        v1::EVENT_SEVERITY_INFO, "host.released", "",
        absl::StrCat("the workers of host ", it->host, " may be taken again"));
    it = quarantines.erase(it);
  }
  SetCheck(turn.state);
  turn.Touch();
  TryGather(turn);
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
