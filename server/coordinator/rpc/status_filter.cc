#include "server/coordinator/rpc/status_filter.h"

namespace ringmaster::coordinator {
namespace {

template <typename Value>
bool IsWanted(const std::set<Value>& wanted, const Value& value) {
  return wanted.empty() || wanted.contains(value);
}

}  // namespace

StatusFilter::StatusFilter(const v1::StatusFilter& filter)
    : jobs_(filter.jobs().begin(), filter.jobs().end()),
      job_states_(filter.job_states().begin(), filter.job_states().end()),
      queues_(filter.queues().begin(), filter.queues().end()),
      owners_(filter.owners().begin(), filter.owners().end()),
      hosts_(filter.hosts().begin(), filter.hosts().end()),
      worker_states_(filter.worker_states().begin(),
                     filter.worker_states().end()) {}

bool StatusFilter::HasJobFields() const {
  return !jobs_.empty() || !job_states_.empty() || !queues_.empty() ||
         !owners_.empty();
}

bool StatusFilter::MatchesAll() const {
  return !HasJobFields() && hosts_.empty() && worker_states_.empty();
}

bool StatusFilter::Matches(const Job& job) const {
  return (IsWanted(jobs_, job.id) || jobs_.contains(job.name)) &&
         IsWanted<int>(job_states_, job.state()) &&
         IsWanted(queues_, job.queue) && IsWanted(owners_, job.owner);
}

bool StatusFilter::Matches(const State& state, const Worker& worker) const {
  if (!IsWanted(hosts_, worker.host) ||
      !IsWanted<int>(worker_states_, worker.state)) {
    return false;
  }
  if (!HasJobFields()) return true;
  const Job* const job = state.JobOf(worker);
  return job != nullptr && Matches(*job);
}

}  // namespace ringmaster::coordinator
