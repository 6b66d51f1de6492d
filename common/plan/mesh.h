// The connections between the ranks of a generation. Pure.
//
// The coordinator sends every rank its peers' addresses, and the workers'
// collectives use no other connections, so both use these functions.
#ifndef RINGMASTER_COMMON_PLAN_MESH_H_
#define RINGMASTER_COMMON_PLAN_MESH_H_

#include <string>
#include <vector>

#include "common/plan/topology.h"

namespace ringmaster {

// The address that a rank is reached at.
struct PeerAddress {
  int rank = 0;
  std::string address = {};  // "host:port" of its listener
};

// A pair of ranks of two hosts may have this many connections for a purpose.
inline constexpr int kMaxConnections = 16;

// Up to this many ranks, every rank is connected with every other.
inline constexpr int kMaxMeshSize = 16;

// Returns true if every rank is connected with every other.
[[nodiscard]] bool IsMesh(const Topology& topology);
// Returns true if the ranks of each host are connected with each other.
[[nodiscard]] bool AreHostsMeshes(const Topology& topology);

// Returns the ranks that `rank` is connected with, ascending, without itself;
// symmetric: a is b's peer iff b is a's. In a mesh these are all ranks;
// otherwise the neighbours in the ring, the partners of halving-doubling and of
// barriers, and, if AreHostsMeshes, the ranks of its own host and the
// neighbours in the ring of hosts.
[[nodiscard]] std::vector<int> PeersOf(int rank, const Topology& topology);

// Returns the distances at which copies of a rank's part are held: that of rank
// r by the ranks r + distance (mod world_size), which it is connected with.
// Each is the one that brings most ranks a copy on another host, and of these
// the least. At most `mirrors` of them; all if there are fewer other ranks.
[[nodiscard]] std::vector<int> MirrorDistances(int mirrors,
                                               const Topology& topology);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_MESH_H_
