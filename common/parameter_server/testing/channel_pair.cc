#include "common/parameter_server/testing/channel_pair.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/check.h"
#include "common/transport/connect_peers.h"
#include "common/transport/handshake.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "common/transport/tcp.h"

namespace ringmaster {
namespace {

std::unique_ptr<Channel> Connect(Transport transport, const ChannelEnd& own,
                                 int peer_rank, const Listener& listener,
                                 const std::string& address) {
  ConnectPeersConfig config;
  config.job_id = "job-1";
  config.rank = own.rank;
  config.secret = "a secret of at least sixteen bytes";
  config.clock = &Clock::Real();
  config.deadline = config.clock->Now() + absl::Seconds(30);
  config.best_transport = transport;
  const PeerConnection peer = {.rank = peer_rank,
                               .role = LinkRole::kParameterServer,
                               .address = address,
                               .arena = own.arena};
  auto channels = ConnectPeers(listener, config, std::span(&peer, 1),
                               /*cancel=*/nullptr);
  RM_CHECK(channels.ok(), "two ranks of a test have no connection");
  return std::move(channels->front());
}

}  // namespace

ChannelPair MakeChannelPair(Transport transport, const ChannelEnd& first,
                            const ChannelEnd& second) {
  ChannelPair pair;
  if (transport == Transport::kLoopback) {
    auto links = LoopbackPair(absl::StrCat("rank ", second.rank),
                              absl::StrCat("rank ", first.rank));
    RM_CHECK(links.ok(), "a test has no descriptor left");
    pair.first = std::make_unique<StreamChannel>(
        first.rank, std::move(links->first), transport);
    pair.second = std::make_unique<StreamChannel>(
        second.rank, std::move(links->second), transport);
    return pair;
  }
  const absl::StatusOr<Listener> acceptor = Listener::Listen("127.0.0.1:0");
  const absl::StatusOr<Listener> connector = Listener::Listen("127.0.0.1:0");
  RM_CHECK(acceptor.ok() && connector.ok(), "a test cannot listen");
  std::thread other([&] {
    pair.second = Connect(transport, second, first.rank, *connector,
                          acceptor->address().ToString());
  });
  pair.first = Connect(transport, first, second.rank, *acceptor, "");
  other.join();
  RM_CHECK(pair.first->transport() == transport, "not the transport asked for");
  return pair;
}

}  // namespace ringmaster
