#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "common/config/address.h"

namespace ringmaster {
namespace {

// Keepalive of servers: a client that does not answer a ping within the timeout
// is dead.
constexpr int kServerKeepaliveTimeMs = 10'000;

// A connection that has not finished TLS' and HTTP/2's handshakes by then is
// closed; gRPC would wait for two minutes. So is one without any call for a
// minute: clients connect again when they have one.
constexpr int kServerHandshakeTimeoutMs = 10'000;
constexpr int kServerIdleTimeoutMs = 60'000;

// Clients may cost a server this much. A worker has one call under way, ringctl
// a few.
constexpr int kMaxCallsOfAConnection = 100;
// Memory of gRPC's own, for connections and messages under way; beyond it gRPC
// ends calls.
constexpr size_t kMaxServerMemoryBytes = 256 << 20;
// Only reflection's calls block threads.
constexpr int kMaxServerThreads = 32;

constexpr int kInitialReconnectMs = 100;
constexpr int kMaxReconnectMs = 1'000;
// Despite its name, how long one attempt to connect may take; 20 s by default,
// which outlasts any patience.
constexpr int kConnectAttemptMs = 5'000;

// gRPC would ask the name server again after 30 s at the earliest, and wait two
// minutes for it.
constexpr int kMinResolveIntervalMs = 1'000;
constexpr int kResolveAttemptMs = 2'500;
// c-ares, gRPC's resolver, would try the next name server after 5 s. It takes
// this option only from the environment; the C library knows no such option.
constexpr char kResolverOptions[] = "retrans:900";

// Only reads, and only UNAVAILABLE (AIP-194). gRPC adds the jitter.
constexpr char kServiceConfig[] = R"json({
  "methodConfig": [{
    "name": [
      {"service": "ringmaster.v1.JobService", "method": "GetJob"},
      {"service": "ringmaster.v1.JobService", "method": "ListJobs"},
      {"service": "ringmaster.v1.JobService", "method": "ListEvents"},
      {"service": "ringmaster.v1.StatusService", "method": "GetStatus"},
      {"service": "ringmaster.v1.CoordinatorService", "method": "ListMembers"}
    ],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
})json";

int Ms(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

void SetResolverOptions() {
  setenv("RES_OPTIONS", kResolverOptions, /*overwrite=*/0);
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const ChannelOptions& options) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
              Ms(std::max(options.ping_interval, kMinPingInterval)));
  // gRPC gives it to the kernel too, as TCP_USER_TIMEOUT.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Ms(options.dead_after));
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kInitialReconnectMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  args.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS,
              kMinResolveIntervalMs);
  args.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, kResolveAttemptMs);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
              options.has_own_connection ? 1 : 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const absl::StatusOr<HostPort> certified =
      ParseHostPort(options.certified_for);
  if (certified.ok()) args.SetSslTargetNameOverride(certified->host);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  args.SetServiceConfigJSON(kServiceConfig);
  return grpc::CreateCustomChannel(target, credentials, args);
}

void ConfigureServer(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             kServerKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kServerKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxCallsOfAConnection);
  builder.SetResourceQuota(grpc::ResourceQuota("server")
                               .Resize(kMaxServerMemoryBytes)
                               .SetMaxThreads(kMaxServerThreads));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kServerHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             kServerIdleTimeoutMs);
  // Half of what clients keep to: timers that fire early are no strikes.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Ms(kMinPingInterval / 2));
  // Without this, two servers share a port and each gets a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
}

}  // namespace ringmaster
