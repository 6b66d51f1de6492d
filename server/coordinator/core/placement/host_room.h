// HostRoom: how many workers of each host a job may have, where it says something
// about hosts: one on each (`spread: host`), or how much memory each of its workers
// needs. The memory of a host is shared by the jobs on it that say how much they need;
// others count for nothing.
//
// Pure. Thread-safety: thread-compatible; lasts as long as the state stays as it is.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_HOST_ROOM_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_HOST_ROOM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

class HostRoom {
 public:
  // What is left beside the members that `job` and others have now.
  [[nodiscard]] static HostRoom Left(const State& state, const Job& job);
  // As if no job had workers.
  [[nodiscard]] static HostRoom Whole(const State& state, const Job& job);

  // Returns true if `job` says nothing about hosts, so that there is room for all.
  [[nodiscard]] bool is_endless() const { return is_endless_; }

  // Takes the room that `worker` needs on its host; false, and takes nothing, if there
  // is none. A member of `giver`, if that is not null, leaves what it needed itself.
  bool Take(const Worker& worker, const Job* giver = nullptr);

 private:
  struct Host {
    int members = 0;
    int64_t used_bytes = 0;
  };

  HostRoom(const State& state, const Job& job, bool counts_members);

  const WorkerNeeds& needs_;
  const bool is_endless_;
  // By host key, which belongs to the state.
  std::unordered_map<std::string_view, Host> hosts_;
};

// "its host has 3.2GiB left": why there is no room for `worker` beside those that are
// there; empty: there is.
[[nodiscard]] std::string NoRoomText(const State& state, const Job& job,
                                     const Worker& worker);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_HOST_ROOM_H_
