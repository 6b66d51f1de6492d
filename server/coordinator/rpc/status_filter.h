// StatusFilter: the workers and jobs that a caller wants to see; see
// ringmaster.v1.StatusFilter. Pure; a value.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_STATUS_FILTER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_STATUS_FILTER_H_

#include <set>
#include <string>

#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

class StatusFilter {
 public:
  // All of them.
  StatusFilter() = default;
  explicit StatusFilter(const v1::StatusFilter& filter);

  [[nodiscard]] bool MatchesAll() const;
  [[nodiscard]] bool Matches(const Job& job) const;
  // `worker` is one of `state`'s.
  [[nodiscard]] bool Matches(const State& state, const Worker& worker) const;

 private:
  // Jobs are asked for by what they are.
  [[nodiscard]] bool HasJobFields() const;

  // Each empty: any.
  std::set<std::string> jobs_;
  std::set<int> job_states_;
  std::set<std::string> queues_;
  std::set<std::string> owners_;
  std::set<std::string> hosts_;
  std::set<int> worker_states_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_STATUS_FILTER_H_
