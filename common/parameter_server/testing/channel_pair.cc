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
#include "common/transport/loopback_channels.h"
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
  if (transport == Transport::kLoopback) {
    const auto side = [](const ChannelEnd& end) {
      return LoopbackSide{absl::StrCat("rank ", end.rank), end.arena};
    };
    auto channels = MakeLoopbackChannels(first.rank, side(first), side(second));
    RM_CHECK(channels.ok(), "a test has no descriptor left");
    return {std::move(channels->first), std::move(channels->second)};
  }
  ChannelPair pair;
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
