#include "common/transport/reach_peers.h"

#include <thread>

#include "common/clock/clock.h"
#include "common/transport/blamed_peer.h"
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

TEST(ReachPeersTest, NothingToReach) {
  const CancelToken cancel;
  EXPECT_TRUE(ReachPeers({}, absl::Hours(1), Clock::Real(), cancel).empty());
}

}  // namespace
}  // namespace ringmaster
