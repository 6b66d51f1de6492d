#include "worker/collective/connect_mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/status/status_macros.h"
#include "common/transport/establish.h"
#include "common/transport/share_memory.h"
#include "common/transport/socket_link.h"
#include "common/transport/striped_channel.h"
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

struct Pairs {
  std::vector<PeerLink> connect_to;
  std::vector<PeerLink> accept_from;
};

// Of each pair the higher rank makes the connections.
absl::StatusOr<Pairs> PairsOf(const MeshConfig& config) {
  Pairs pairs;
  for (const int peer : PeersOf(config.rank, config.topology)) {
    const bool is_local =
        config.topology.HostOf(peer) == config.topology.HostOf(config.rank);
    PeerLink link = {peer, LinkRole::kCollective, ""};
    if (peer < config.rank) {
      ASSIGN_OR_RETURN(link.address, AddressOf(peer, config));
    }
    std::vector<PeerLink>& links =
        peer < config.rank ? pairs.connect_to : pairs.accept_from;
    for (; link.stripe < (is_local ? 1 : config.stripes); ++link.stripe)
      links.push_back(link);
  }
  return pairs;
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
  if (config.stripes < 1 || config.stripes > kMaxConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.stripes, " connections to a peer; 1 to ",
                     kMaxConnections, " are possible"));
  }
  std::vector<std::unique_ptr<Channel>> by_rank(
      static_cast<size_t>(world_size));
  if (world_size == 1) {
    return std::make_unique<HostCommunicator>(ToOptions(config),
                                              std::move(by_rank));
  }
  ASSIGN_OR_RETURN(const Pairs pairs, PairsOf(config));
  ASSIGN_OR_RETURN(EstablishedLinks links,
                   EstablishLinks(listener, ToEstablishConfig(config, cancel),
                                  pairs.connect_to, pairs.accept_from));
  std::vector<PeerStream> streams;
  const auto add = [&](const std::vector<PeerLink>& peers,
                       std::vector<std::unique_ptr<SocketLink>> connected) {
    for (size_t i = 0; i < peers.size(); ++i) {
      const Transport transport = connected[i]->transport();
      streams.push_back(
          {peers[i].peer_rank, std::move(connected[i]), transport});
    }
  };
  add(pairs.connect_to, std::move(links.connected));
  add(pairs.accept_from, std::move(links.accepted));
  std::vector<int> ranks;
  for (const PeerStream& stream : streams) ranks.push_back(stream.peer_rank);
  ASSIGN_OR_RETURN(
      std::vector<std::unique_ptr<Channel>> channels,
      MakeChannels(ToShareConfig(config, cancel), std::move(streams)));
  // The connections of a pair follow one another, by stripe.
  for (size_t i = 0; i < ranks.size();) {
    const auto rank = static_cast<size_t>(ranks[i]);
    std::vector<std::unique_ptr<Channel>> stripes;
    for (; i < ranks.size() && static_cast<size_t>(ranks[i]) == rank; ++i)
      stripes.push_back(std::move(channels[i]));
    by_rank[rank] = stripes.size() == 1
                        ? std::move(stripes.front())
                        : std::make_unique<StripedChannel>(std::move(stripes));
  }
  return std::make_unique<HostCommunicator>(ToOptions(config),
                                            std::move(by_rank));
}

}  // namespace ringmaster
