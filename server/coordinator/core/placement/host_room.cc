#include "server/coordinator/core/placement/host_room.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

// A member that leaves makes room for the one that takes over from it.
bool IsLeaving(const State& state, const Worker& worker) {
  const Cordon* const cordon = state.CordonOf(worker);
  return worker.state == v1::WORKER_STATE_DRAINING || worker.is_let_go ||
         (cordon != nullptr && cordon->drains);
}

}  // namespace

HostRoom HostRoom::Left(const State& state, const Job& job) {
  return HostRoom(state, job, true);
}

HostRoom HostRoom::Whole(const State& state, const Job& job) {
  return HostRoom(state, job, false);
}

HostRoom::HostRoom(const State& state, const Job& job, bool counts_members)
    : needs_(job.needs), is_endless_(!job.needs.LooksAtHosts()) {
  if (is_endless_ || !counts_members) return;
  for (const auto& [name, worker] : state.workers) {
    if (worker.role != v1::ROLE_WORKER || worker.job_id.empty()) continue;
    Host& host = hosts_[worker.host_key];
    if (worker.job_id == job.id && !IsLeaving(state, worker)) ++host.members;
    const Job* const its_job = state.JobOf(worker);
    if (its_job != nullptr) host.used_bytes += its_job->needs.memory_bytes;
  }
}

bool HostRoom::Take(const Worker& worker, const Job* giver) {
  if (is_endless_) return true;
  Host& host = hosts_[worker.host_key];
  if (needs_.one_per_host && host.members > 0) return false;
  const int64_t left_behind = giver == nullptr ? 0 : giver->needs.memory_bytes;
  const int64_t used = host.used_bytes - left_behind + needs_.memory_bytes;
  if (needs_.memory_bytes > 0 && used > worker.host_memory_bytes) return false;
  ++host.members;
  host.used_bytes = used;
  return true;
}

std::string NoRoomText(const State& state, const Job& job,
                       const Worker& worker) {
  if (HostRoom::Left(state, job).Take(worker)) return "";
  int64_t left = worker.host_memory_bytes;
  for (const auto& [name, other] : state.workers) {
    const Job* const its_job = state.JobOf(other);
    if (other.host_key != worker.host_key || its_job == nullptr) continue;
    if (job.needs.one_per_host && its_job == &job) {
      return absl::StrCat("is on the host of worker ", name,
                          ", which the job has");
    }
    left -= its_job->needs.memory_bytes;
  }
  return absl::StrCat("is on a host that has ",
                      MemoryText(std::max<int64_t>(0, left)), " of its ",
                      MemoryText(worker.host_memory_bytes), " left");
}

}  // namespace ringmaster::coordinator
