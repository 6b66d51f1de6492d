#include "common/transport/connect_peers.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/status/status_macros.h"
#include "common/transport/establish.h"
#include "common/transport/share_memory.h"
#include "common/transport/socket_link.h"
#include "common/transport/striped_channel.h"

namespace ringmaster {
namespace {

EstablishConfig ToEstablishConfig(const ConnectPeersConfig& config,
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
  establish.derives_keys = config.integrity == FrameIntegrity::kAes256Gcm;
  establish.use_unix = config.best_transport > Transport::kTcp;
  return establish;
}

ShareMemoryConfig ToShareConfig(const ConnectPeersConfig& config,
                                const CancelToken* cancel) {
  ShareMemoryConfig share;
  share.rank = config.rank;
  share.deadline = config.deadline;
  share.clock = config.clock;
  share.cancel = cancel;
  share.use_shared_memory = config.best_transport == Transport::kSharedMemory;
  share.integrity = config.integrity;
  share.on_fallback = config.on_fallback;
  return share;
}

struct Links {
  std::vector<PeerLink> connect_to;
  std::vector<PeerLink> accept_from;
};

absl::StatusOr<Links> LinksOf(std::span<const PeerConnection> peers) {
  Links links;
  for (const PeerConnection& peer : peers) {
    const int end = peer.first_stripe + peer.stripes;
    if (peer.stripes < 1 || peer.first_stripe < 0 || end > kMaxConnections) {
      return absl::InvalidArgumentError(absl::StrCat(
          peer.stripes, " connections to rank ", peer.rank,
          peer.first_stripe == 0
              ? ""
              : absl::StrCat(" from number ", peer.first_stripe, " on"),
          "; 1 to ", kMaxConnections, " are possible"));
    }
    PeerLink link = {peer.rank, peer.role, peer.address};
    std::vector<PeerLink>& into =
        peer.address.empty() ? links.accept_from : links.connect_to;
    for (link.stripe = peer.first_stripe; link.stripe < end; ++link.stripe)
      into.push_back(link);
  }
  return links;
}

// One for each connection, those of a peer after one another.
std::vector<PeerStream> StreamsOf(std::span<const PeerConnection> peers,
                                  EstablishedLinks links) {
  std::vector<PeerStream> streams;
  auto connected = links.connected.begin();
  auto accepted = links.accepted.begin();
  for (const PeerConnection& peer : peers) {
    auto& next = peer.address.empty() ? accepted : connected;
    for (int stripe = 0; stripe < peer.stripes; ++stripe) {
      EstablishedLink& made = *next++;
      const Transport transport = made.link->transport();
      streams.push_back(
          {peer.rank, std::move(made.link), transport, peer.arena, made.keys});
    }
  }
  return streams;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Channel>>> ConnectPeers(
    const Listener& listener, const ConnectPeersConfig& config,
    std::span<const PeerConnection> peers, const CancelToken* cancel) {
  ASSIGN_OR_RETURN(const Links pairs, LinksOf(peers));
  ASSIGN_OR_RETURN(EstablishedLinks links,
                   EstablishLinks(listener, ToEstablishConfig(config, cancel),
                                  pairs.connect_to, pairs.accept_from));
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Channel>> stripes,
                   MakeChannels(ToShareConfig(config, cancel),
                                StreamsOf(peers, std::move(links))));
  std::vector<std::unique_ptr<Channel>> channels;
  auto next = std::make_move_iterator(stripes.begin());
  for (const PeerConnection& peer : peers) {
    std::vector<std::unique_ptr<Channel>> of_peer(next, next + peer.stripes);
    next += peer.stripes;
    channels.push_back(of_peer.size() == 1 ? std::move(of_peer.front())
                                           : std::make_unique<StripedChannel>(
                                                 std::move(of_peer)));
  }
  return channels;
}

}  // namespace ringmaster
