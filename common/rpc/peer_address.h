// HostOfPeer reads the addresses of peers as gRPC names them. Pure.
#ifndef RINGMASTER_COMMON_RPC_PEER_ADDRESS_H_
#define RINGMASTER_COMMON_RPC_PEER_ADDRESS_H_

#include <string>
#include <string_view>

namespace ringmaster {

// The host in what grpc::ServerContext::peer() returns, a percent-encoded URI:
// "ipv4:10.0.0.7:43210" gives "10.0.0.7", "ipv6:%5Bfe80::1%25eth0%5D:43210"
// gives "fe80::1%eth0", and an IPv4 address mapped into IPv6 comes out as IPv4.
// Empty if there is none, as on a Unix socket.
[[nodiscard]] std::string HostOfPeer(std::string_view peer);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_PEER_ADDRESS_H_
