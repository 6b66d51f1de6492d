#include "common/rpc/peer_address.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(PeerAddressTest, FindsTheHostInEachForm) {
  EXPECT_EQ(HostOfPeer("ipv4:127.0.0.1:55464"), "127.0.0.1");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::1%5D:43210"), "::1");
  EXPECT_EQ(HostOfPeer("ipv6:[::1]:43210"), "::1");
  EXPECT_EQ(HostOfPeer("ipv6:%5Bfe80::1%25eth0%5D:1"), "fe80::1%eth0");
  EXPECT_EQ(HostOfPeer("ipv6:[fe80::1%eth0]:1"), "fe80::1%eth0");
}

TEST(PeerAddressTest, MappedIpv4ComesOutAsIpv4) {
  EXPECT_EQ(HostOfPeer("ipv6:%5B::ffff:10.0.0.7%5D:43210"), "10.0.0.7");
}

TEST(PeerAddressTest, OtherFormsHaveNoHost) {
  EXPECT_EQ(HostOfPeer("unix:/run/ringmaster.sock"), "");
  EXPECT_EQ(HostOfPeer(""), "");
  EXPECT_EQ(HostOfPeer("ipv4:"), "");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::1:43210"), "");
}

}  // namespace
}  // namespace ringmaster
