// The setup of this system's gRPC clients and servers: in one place, because
// both sides must agree on keepalive.
//
// A client that pings more often than its server permits is cut off with
// "too_many_pings"; gRPC's defaults on the two sides do not fit together. Free
// of gRPC's headers.
#ifndef RINGMASTER_COMMON_RPC_CHANNEL_H_
#define RINGMASTER_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace grpc {
class Channel;
class ChannelCredentials;
class ServerBuilder;
}  // namespace grpc

namespace ringmaster {

// A client that does not answer a ping for so long is dead; the kernel uses the same
// for what is not acknowledged.
inline constexpr int kServerKeepaliveTimeoutMs = 5'000;

// Largest control message either side takes; larger ones fail with
// RESOURCE_EXHAUSTED.
inline constexpr int kMaxMessageBytes = 4 << 20;

// Clients ping no more often than this, whatever their options say.
inline const absl::Duration kMinPingInterval = absl::Seconds(2);

struct ChannelOptions {
  // A connection of its own instead of one shared with other channels of the
  // process to the same server, so that one session's end is not another's.
  bool has_own_connection = false;
  // A connection counts as broken if data, a ping or the first packet to a new
  // address is not acknowledged within this time.
  absl::Duration dead_after = absl::Seconds(2);
  // The time between pings of a connection on which nothing comes in. One that
  // always has something to send needs few pings: the kernel watches over it.
  absl::Duration ping_interval = absl::Seconds(3);
  // "HOST:PORT", if the target is an address of this host: with TLS, the
  // server's certificate is for HOST.
  std::string certified_for = {};
};

// To be called when a program starts, before it has threads or channels. Makes
// the resolver retry after a second if a name server does not answer, or try
// another one (sets RES_OPTIONS in the environment unless it is set).
void SetResolverOptions();

// A channel to `target` ("HOST:PORT", "[HOST]:PORT" or any gRPC target).
// Connects when first used and reconnects after 100 ms, growing to 1 s; a dead
// host is noticed within ping_interval plus dead_after; HTTP proxies of the
// environment are not used. Reads of the API are retried a few times while the
// server is UNAVAILABLE; calls that change something are not.
//
// To reach a name's new address as soon as it changes, make a new channel for
// each attempt: an old one stays with the address that it is trying, and waits
// longer each time the name does not resolve.
[[nodiscard]] std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const ChannelOptions& options = {});

// Gives `builder` the settings that fit MakeChannel's, and makes it fail on a
// port that another process listens on.
void ConfigureServer(grpc::ServerBuilder& builder);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_CHANNEL_H_
