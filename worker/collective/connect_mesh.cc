#include "worker/collective/connect_mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/status/status_macros.h"
#include "common/transport/establish.h"
#include "common/transport/share_memory.h"
#include "common/transport/socket_link.h"
#include "worker/collective/host_communicator.h"

namespace ringmaster {
namespace {

EstablishConfig ToEstablishConfig(const MeshConfig& config,
                                  const CancelToken* cancel) {
  EstablishConfig establish;
  establish.job_id = config.job_id;
  establish.generation = config.generation;
  establish.rank = config.rank;
  establish.secret = config.secret;
  establish.deadline = config.deadline;
  establish.clock = config.clock;
  establish.cancel = cancel;
  establish.on_refused = config.on_refused;
  // A peer that answers nothing for as long as connecting to it may take is as
  // far away as one that cannot be connected to. Half of that time passes before
  // the kernel is sure that it asked in vain.
  establish.silence_limit = (config.deadline - config.clock->Now()) / 2;
  establish.use_unix = config.best_transport > Transport::kTcp;
  return establish;
}

ShareMemoryConfig ToShareConfig(const MeshConfig& config,
                                const CancelToken* cancel) {
  ShareMemoryConfig share;
  share.rank = config.rank;
  share.deadline = config.deadline;
  share.clock = config.clock;
  share.cancel = cancel;
  share.use_shared_memory = config.best_transport == Transport::kSharedMemory;
  share.arena = config.arena;
  share.on_fallback = config.on_fallback;
  return share;
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
  if (it != config.peers.end()) return it->address;
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", config.rank, " was given no address of rank ", rank));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMesh(
    const Listener& listener, const MeshConfig& config,
    const CancelToken* cancel) {
  const int world_size = config.topology.world_size();
  if (config.rank < 0 || config.rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", config.rank, " in a world of ", world_size));
  }
  std::vector<std::unique_ptr<Channel>> by_rank(
      static_cast<size_t>(world_size));
  if (world_size == 1) {
    return std::make_unique<HostCommunicator>(ToOptions(config),
                                              std::move(by_rank));
  }
  // One connection for each pair: the higher rank makes it.
  std::vector<PeerLink> connect_to;
  std::vector<PeerLink> accept_from;
  for (const int peer : PeersOf(config.rank, config.topology)) {
    if (peer > config.rank) {
      accept_from.push_back({peer, LinkRole::kCollective, ""});
      continue;
    }
    ASSIGN_OR_RETURN(std::string address, AddressOf(peer, config));
    connect_to.push_back({peer, LinkRole::kCollective, std::move(address)});
  }
  ASSIGN_OR_RETURN(EstablishedLinks links,
                   EstablishLinks(listener, ToEstablishConfig(config, cancel),
                                  connect_to, accept_from));
  std::vector<PeerStream> streams;
  const auto add = [&](const std::vector<PeerLink>& peers,
                       std::vector<std::unique_ptr<SocketLink>> connected) {
    for (size_t i = 0; i < peers.size(); ++i) {
      const Transport transport = connected[i]->transport();
      streams.push_back(
          {peers[i].peer_rank, std::move(connected[i]), transport});
    }
  };
  add(connect_to, std::move(links.connected));
  add(accept_from, std::move(links.accepted));
  std::vector<int> ranks;
  for (const PeerStream& stream : streams) ranks.push_back(stream.peer_rank);
  ASSIGN_OR_RETURN(
      std::vector<std::unique_ptr<Channel>> channels,
      MakeChannels(ToShareConfig(config, cancel), std::move(streams)));
  for (size_t i = 0; i < ranks.size(); ++i)
    by_rank[static_cast<size_t>(ranks[i])] = std::move(channels[i]);
  return std::make_unique<HostCommunicator>(ToOptions(config),
                                            std::move(by_rank));
}

}  // namespace ringmaster
