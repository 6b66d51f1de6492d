#include "worker/collective/connect_mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/status/status_macros.h"
#include "common/transport/connect_peers.h"
#include "worker/collective/host_communicator.h"

namespace ringmaster {
namespace {

ConnectPeersConfig ToConnectConfig(const MeshConfig& config) {
  ConnectPeersConfig connect;
  connect.job_id = config.job_id;
  connect.generation = config.generation;
  connect.rank = config.rank;
  connect.secret = config.secret;
  connect.deadline = config.deadline;
  connect.best_transport = config.best_transport;
  connect.integrity = config.integrity;
  connect.clock = config.clock;
  connect.on_refused = config.on_refused;
  connect.on_fallback = config.on_fallback;
  return connect;
}

HostCommunicator::Options ToOptions(const MeshConfig& config) {
  HostCommunicator::Options options;
  options.job_id = config.job_id;
  options.generation = config.generation;
  options.rank = config.rank;
  options.topology = config.topology;
  options.policy = config.policy;
  options.clock = config.clock;
  options.trace = config.trace;
  return options;
}

absl::StatusOr<std::string> AddressOf(int rank, const MeshConfig& config) {
  const auto it =
      std::find_if(config.peers.begin(), config.peers.end(),
                   [&](const PeerAddress& peer) { return peer.rank == rank; });
  if (it != config.peers.end() && !it->address.empty()) return it->address;
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", config.rank, " was given no address of rank ", rank));
}

// In each pair the higher rank makes the connections.
absl::StatusOr<std::vector<PeerConnection>> ConnectionsOf(
    const MeshConfig& config) {
  std::vector<PeerConnection> connections;
  for (const int peer : PeersOf(config.rank, config.topology)) {
    const bool is_local =
        config.topology.HostOf(peer) == config.topology.HostOf(config.rank);
    PeerConnection connection;
    connection.rank = peer;
    connection.stripes = is_local ? 1 : config.stripes;
    connection.arena = config.arena;
    if (peer < config.rank) {
      ASSIGN_OR_RETURN(connection.address, AddressOf(peer, config));
    }
    connections.push_back(std::move(connection));
  }
  return connections;
}

}  // namespace

absl::StatusOr<ConnectedMesh> ConnectMeshAndOthers(
    const Listener& listener, const MeshConfig& config,
    std::span<const PeerConnection> others, const CancelToken* cancel) {
  const int world_size = config.topology.world_size();
  if (config.rank < 0 || config.rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", config.rank, " in a world of ", world_size));
  }
  std::vector<PeerConnection> connections;
  if (world_size > 1) {
    ASSIGN_OR_RETURN(connections, ConnectionsOf(config));
  }
  const size_t mesh_size = connections.size();
  connections.insert(connections.end(), others.begin(), others.end());
  std::vector<std::unique_ptr<Channel>> channels;
  if (!connections.empty()) {
    ASSIGN_OR_RETURN(channels, ConnectPeers(listener, ToConnectConfig(config),
                                            connections, cancel));
  }
  std::vector<std::unique_ptr<Channel>> by_rank(
      static_cast<size_t>(world_size));
  ConnectedMesh connected;
  for (size_t i = 0; i < connections.size(); ++i) {
    if (i < mesh_size) {
      by_rank[static_cast<size_t>(connections[i].rank)] =
          std::move(channels[i]);
    } else {
      connected.others.push_back(std::move(channels[i]));
    }
  }
  connected.communicator =
      std::make_unique<HostCommunicator>(ToOptions(config), std::move(by_rank));
  return connected;
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMesh(
    const Listener& listener, const MeshConfig& config,
    const CancelToken* cancel) {
  ASSIGN_OR_RETURN(ConnectedMesh connected,
                   ConnectMeshAndOthers(listener, config, {}, cancel));
  return std::move(connected.communicator);
}

}  // namespace ringmaster
