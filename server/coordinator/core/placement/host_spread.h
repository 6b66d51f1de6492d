// HostSpread: the hosts on which a job may have one more worker, where it wants no two of
// them on one host (`spread: host`). Other jobs may have any number, and parameter
// servers may be anywhere.
//
// Pure. Thread-safety: thread-compatible; lasts as long as the state stays as it is.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_HOST_SPREAD_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_HOST_SPREAD_H_

#include <string_view>
#include <unordered_set>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

class HostSpread {
 public:
  // Beside the members that `job` has. One that leaves makes room for whoever takes over
  // from it.
  [[nodiscard]] static HostSpread Beside(const State& state, const Job& job);
  // As if it had none.
  explicit HostSpread(const Job& job) : is_spread_(job.needs.one_per_host) {}

  // Returns true if `job` may have `worker` as well.
  [[nodiscard]] bool HasRoomFor(const Worker& worker) const {
    return !Counts(worker) || !taken_.contains(worker.host_key);
  }
  // The same; then it has it.
  bool Take(const Worker& worker) {
    return !Counts(worker) || taken_.insert(worker.host_key).second;
  }

 private:
  [[nodiscard]] bool Counts(const Worker& worker) const {
    return is_spread_ && worker.role == v1::ROLE_WORKER;
  }

  const bool is_spread_;
  // Host keys, which belong to the state.
  std::unordered_set<std::string_view> taken_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_HOST_SPREAD_H_
