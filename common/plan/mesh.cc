#include "common/plan/mesh.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "common/plan/fold.h"
#include "common/plan/host_chunks.h"

namespace ringmaster {
namespace {

void AddHalvingDoubling(int rank, int world_size, std::set<int>& peers) {
  const Fold fold(world_size);
  if (fold.IsFolded(rank)) {
    peers.insert(rank + 1);
    return;
  }
  if (fold.IsHost(rank)) peers.insert(rank - 1);
  for (int level = 0; level < fold.levels(); ++level)
    peers.insert(fold.RankOf(fold.PlaceOf(rank) ^ (1 << level)));
}

void AddHierarchical(int rank, const Topology& topology, std::set<int>& peers) {
  const HostChunks hosts(topology);
  const int host = topology.HostOf(rank);
  const std::vector<int>& together = topology.RanksOf(host);
  peers.insert(together.begin(), together.end());
  for (int chunk = 0; chunk < hosts.chunk_count(); ++chunk) {
    if (hosts.OwnerOf(chunk, host) != rank) continue;
    peers.insert(hosts.OwnerOf(chunk, host + 1));
    peers.insert(hosts.OwnerOf(chunk, host - 1));
  }
}

}  // namespace

bool IsMesh(const Topology& topology) {
  return topology.world_size() <= kMaxMeshSize;
}

bool AreHostsMeshes(const Topology& topology) {
  for (int host = 0; host < topology.host_count(); ++host) {
    if (topology.RanksOf(host).size() > size_t{kMaxMeshSize}) return false;
  }
  return true;
}

std::vector<int> PeersOf(int rank, const Topology& topology) {
  const int n = topology.world_size();
  std::set<int> peers;
  if (IsMesh(topology)) {
    for (int peer = 0; peer < n; ++peer) peers.insert(peer);
  } else {
    // The ring and the barrier.
    for (int distance = 1; distance < n; distance *= 2) {
      peers.insert((rank + distance) % n);
      peers.insert((rank - distance + n) % n);
    }
    AddHalvingDoubling(rank, n, peers);
    if (AreHostsMeshes(topology)) AddHierarchical(rank, topology, peers);
  }
  peers.erase(rank);
  return {peers.begin(), peers.end()};
}

std::vector<int> MirrorDistances(int mirrors, const Topology& topology) {
  const int n = topology.world_size();
  // Each distance with the number of copies that it leaves on their own host.
  std::vector<std::pair<int, int>> candidates;
  for (int distance = 1; distance < n;
       distance = IsMesh(topology) ? distance + 1 : distance * 2) {
    int together = 0;
    for (int rank = 0; rank < n; ++rank)
      together += topology.AreTogether(rank, (rank + distance) % n) ? 1 : 0;
    candidates.emplace_back(together, distance);
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<int> distances;
  for (const auto& [together, distance] : candidates) {
    if (static_cast<int>(distances.size()) == mirrors) break;
    distances.push_back(distance);
  }
  return distances;
}

}  // namespace ringmaster
