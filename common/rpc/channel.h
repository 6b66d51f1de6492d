// How this system's gRPC clients and servers are set up: one place, because
// both sides must agree on keepalive.
//
// A client that pings more often than its server permits is cut off with
// "too_many_pings"; gRPC's defaults on the two sides do not fit together. Free
// of gRPC's headers.
#ifndef RINGMASTER_COMMON_RPC_CHANNEL_H_
#define RINGMASTER_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>

namespace grpc {
class Channel;
class ChannelCredentials;
class ServerBuilder;
}  // namespace grpc

namespace ringmaster {

// Largest control message either side takes; larger ones fail with
// RESOURCE_EXHAUSTED.
inline constexpr int kMaxMessageBytes = 4 << 20;

struct ChannelOptions {
  // A connection of its own instead of one shared with other channels of the
  // process to the same server, so that one session's end is not another's.
  bool has_own_connection = false;
};

// A channel to `target` ("HOST:PORT", "[HOST]:PORT" or any gRPC target).
// Connects when first used and reconnects after 100 ms, growing to 1 s;
// keepalive finds a dead host within 15 s; HTTP proxies of the environment are
// not used. Reads of the API are retried a few times while the server is
// UNAVAILABLE; calls that change something are not.
[[nodiscard]] std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const ChannelOptions& options = {});

// Gives `builder` the settings that fit MakeChannel's, and makes it fail on a
// port that another process listens on.
void ConfigureServer(grpc::ServerBuilder& builder);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_CHANNEL_H_
