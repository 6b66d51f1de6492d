#include "worker/bench/local_mesh.h"

#include <utility>

#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/status/status_macros.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(60);

}  // namespace

absl::StatusOr<std::vector<Listener>> ListenForRanks(int ranks) {
  std::vector<Listener> listeners;
  for (int rank = 0; rank < ranks; ++rank) {
    ASSIGN_OR_RETURN(Listener listener, Listener::Listen("127.0.0.1:0"));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectLocalRank(
    const std::vector<Listener>& listeners, int rank,
    const LocalMeshOptions& options) {
  MeshConfig config;
  config.job_id = "bench";
  config.generation = options.generation;
  config.rank = rank;
  config.topology = Topology::OneHost(static_cast<int>(listeners.size()));
  for (size_t peer = 0; peer < listeners.size(); ++peer) {
    config.peers.push_back(
        {static_cast<int>(peer), listeners[peer].address().ToString()});
  }
  config.secret = "a benchmark has no secrets";
  config.deadline = Clock::Real().Now() + kConnectTimeout;
  config.best_transport = options.best_transport;
  config.arena = options.arena;
  config.policy = options.policy;
  config.integrity = options.integrity;
  config.clock = &Clock::Real();
  config.on_fallback = options.on_fallback;
  return ConnectMesh(listeners[static_cast<size_t>(rank)], config,
                     /*cancel=*/nullptr);
}

}  // namespace ringmaster
