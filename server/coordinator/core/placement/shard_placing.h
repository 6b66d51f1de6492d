// Shard placing: assigns the shards of a job's parameters to hosts for the next
// generation. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARD_PLACING_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARD_PLACING_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/parameter_server/shard_placement.h"

namespace ringmaster::coordinator {

// A member that can hold shards.
struct ShardHolder {
  int rank = 0;
  // Equal on those that share a machine.
  std::string_view host_key;
  // It gives its shards to the others and receives none.
  bool is_leaving = false;
};

// The known copies of a shard.
struct ShardCopies {
  // The holders of it as of the resume step, as indices, ascending.
  std::vector<int> holders;
  // Its primary so far, by index; -1: it had none, or the primary is gone.
  int primary = -1;
};

// Places `shards`, which each host serves with `lanes` threads (LaneOfShard; at
// least 1), with `replicas` (0 or 1) additional copies of each, on `hosts`, at
// least one; if all of them leave, as if none did. By shard:
//   primary  as many on each host as on any other, give or take one. It stays
//            where it was if that allows it; otherwise it goes to a host that
//            holds a copy, or else to any host. A host with too many primaries
//            keeps as many of one lane as of another, give or take one.
//   backup   another host, if there are two: on another machine if there is
//            one, then one that has the fewest, then one that holds a copy.
//   source   the primary if it holds the shard, else the backup if that does,
//            else the first holder, perhaps a leaving one; -1 if there is none.
// The same for the same arguments.
[[nodiscard]] std::vector<ShardPlacement> PlaceShards(
    const std::vector<ShardHolder>& hosts,
    const std::vector<ShardCopies>& shards, int lanes, int replicas);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARD_PLACING_H_
