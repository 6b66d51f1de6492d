// The connections of a benchmark's ranks on one machine, without a coordinator.
#ifndef RINGMASTER_WORKER_BENCH_LOCAL_MESH_H_
#define RINGMASTER_WORKER_BENCH_LOCAL_MESH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/channel.h"
#include "common/transport/shared_segment.h"
#include "common/transport/tcp.h"
#include "worker/collective/communicator.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

// Makes a listener for each rank; call it before the ranks are forked.
// UNAVAILABLE: no port or descriptor is left.
[[nodiscard]] absl::StatusOr<std::vector<Listener>> ListenForRanks(int ranks);

struct LocalMeshOptions {
  int64_t generation = 1;  // another for each mesh between the same listeners
  Transport best_transport = Transport::kSharedMemory;
  // As of MeshConfig. May be null; outlives the communicator.
  const SharedSegment* arena = nullptr;
  AlgorithmPolicy policy = {};
  // As of MeshConfig.
  FrameIntegrity integrity = FrameIntegrity::kNone;
  // As of MeshConfig. May be empty.
  std::function<void(int peer, const std::string& why)> on_fallback = {};
};

// Connects `rank` with all others. Errors as of ConnectMesh.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> ConnectLocalRank(
    const std::vector<Listener>& listeners, int rank,
    const LocalMeshOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_LOCAL_MESH_H_
