#include "server/coordinator/core/placement/host_spread.h"

namespace ringmaster::coordinator {

HostSpread HostSpread::Beside(const State& state, const Job& job) {
  HostSpread spread(job);
  if (!spread.is_spread_) return spread;
  for (const Member& member : job.members) {
    const Worker* const worker = state.FindWorker(member.identity.worker);
    if (member.is_lost || worker == nullptr || worker->job_id != job.id)
      continue;
    const Cordon* const cordon = state.CordonOf(*worker);
    const bool leaves =
        IsLeaving(*worker) || (cordon != nullptr && cordon->drains);
    if (!leaves) spread.Take(*worker);
  }
  return spread;
}

}  // namespace ringmaster::coordinator
