#include "common/transport/reach_peers.h"

#include <sys/resource.h>

#include <string>
#include <thread>
#include <vector>

#include "common/clock/clock.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/testing/deaf_port.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

std::string AddressOf(const Listener& listener) {
  return listener.address().ToString();
}

TEST(ReachPeersTest, SaysOfEachPeerWhetherItIsThere) {
  const auto first = Listener::Listen("127.0.0.1:0");
  const auto second = Listener::Listen("127.0.0.1:0");
  auto gone = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(first.ok() && second.ok() && gone.ok());
  const std::string nobody_listens = AddressOf(*gone);
  gone = absl::UnavailableError("closed");
  const std::vector<std::string> addresses = {AddressOf(*first), nobody_listens,
                                              "no address", AddressOf(*second)};
  const CancelToken cancel;
  const std::vector<absl::Status> reached =
      ReachPeers(addresses, absl::Seconds(60), Clock::Real(), cancel);
  ASSERT_EQ(reached.size(), 4u);
  EXPECT_TRUE(reached[0].ok()) << reached[0];
  EXPECT_EQ(LinkFailureOf(reached[1]), LinkFailure::kRefused) << reached[1];
  EXPECT_TRUE(absl::IsInvalidArgument(reached[2])) << reached[2];
  EXPECT_TRUE(reached[3].ok()) << reached[3];
}

TEST(ReachPeersTest, NobodyAnswersInTime) {
  const DeafPort deaf;
  const CancelToken cancel;
  const std::vector<std::string> addresses = {deaf.address()};
  const MonotonicTime begin = Clock::Real().Now();
  const std::vector<absl::Status> reached =
      ReachPeers(addresses, absl::Milliseconds(80), Clock::Real(), cancel);
  ASSERT_EQ(reached.size(), 1u);
  ASSERT_FALSE(reached[0].ok());
  EXPECT_EQ(LinkFailureOf(reached[0]), LinkFailure::kNoAnswer) << reached[0];
  EXPECT_GE(Clock::Real().Now() - begin, absl::Milliseconds(80));
}

// As if the machine had been too busy to run it in time.
TEST(ReachPeersTest, LooksOnceMoreWhenTheTimeIsOver) {
  const auto listener = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  const DeafPort deaf;
  const CancelToken cancel;
  const std::vector<std::string> addresses = {AddressOf(*listener),
                                              deaf.address()};
  const std::vector<absl::Status> reached =
      ReachPeers(addresses, absl::ZeroDuration(), Clock::Real(), cancel);
  EXPECT_TRUE(reached[0].ok()) << reached[0];
  EXPECT_EQ(LinkFailureOf(reached[1]), LinkFailure::kNoAnswer) << reached[1];
}

TEST(ReachPeersTest, IsCancelled) {
  const DeafPort deaf;
  CancelToken cancel;
  const std::vector<std::string> addresses = {deaf.address()};
  std::vector<absl::Status> reached;
  std::thread prober([&] {
    reached = ReachPeers(addresses, absl::Hours(1), Clock::Real(), cancel);
  });
  cancel.Cancel("the session is over");
  prober.join();
  ASSERT_EQ(reached.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(reached[0])) << reached[0];
}

SocketAddress Resolved(const std::string& address) {
  return Resolve(address)->front();
}

TEST(ReachPeersTest, AsksAllAddressesOfAPeer) {
  const auto listener = Listener::Listen("127.0.0.1:0");
  auto gone = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok() && gone.ok());
  const SocketAddress refuses = gone->address();
  gone = absl::UnavailableError("closed");
  const DeafPort deaf_port;
  const SocketAddress deaf = Resolved(deaf_port.address());
  const CancelToken cancel;
  // It is there at its last address, whatever becomes of the others.
  const std::vector<absl::Status> reached =
      ReachPeers({{"refused first", {{refuses, listener->address()}}},
                  {"refuses", {{refuses, refuses}}},
                  {"silent first", {{deaf, listener->address()}}}},
                 absl::Seconds(20), Clock::Real(), cancel);
  EXPECT_TRUE(reached[0].ok()) << reached[0];
  EXPECT_EQ(LinkFailureOf(reached[1]), LinkFailure::kRefused) << reached[1];
  EXPECT_TRUE(reached[2].ok()) << reached[2];
  // One address refuses, but the other may still answer.
  for (const std::vector<SocketAddress>& both :
       {std::vector{deaf, refuses}, std::vector{refuses, deaf}}) {
    const std::vector<absl::Status> waited = ReachPeers(
        {{"half", both}}, absl::Milliseconds(80), Clock::Real(), cancel);
    EXPECT_EQ(LinkFailureOf(waited[0]), LinkFailure::kNoAnswer) << waited[0];
  }
}

TEST(ReachPeersTest, WithoutDescriptorsNothingIsSaidOfTheLink) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const CancelToken cancel;
  const std::vector<std::string> addresses = {"127.0.0.1:1"};
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::vector<absl::Status> reached =
      ReachPeers(addresses, absl::Milliseconds(80), Clock::Real(), cancel);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(reached[0].ok());
  EXPECT_EQ(LinkFailureOf(reached[0]), LinkFailure::kUnknown) << reached[0];
}

TEST(ReachPeersTest, NothingToReach) {
  const CancelToken cancel;
  EXPECT_TRUE(ReachPeers(std::vector<PeerAddresses>(), absl::Hours(1),
                         Clock::Real(), cancel)
                  .empty());
}

}  // namespace
}  // namespace ringmaster
