#include "server/ctl/doctor/peers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/tcp.h"
#include "common/transport/testing/deaf_port.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

std::vector<PeerFacts> Connected(std::vector<PeerFacts> peers,
                                 absl::Duration limit = absl::Seconds(20)) {
  ReachAll(limit, Clock::Real(), peers);
  return peers;
}

TEST(PeersTest, TellsWhoListensFromWhoDoesNot) {
  const auto listener = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  int unused = 0;
  {
    const auto gone = Listener::Listen("127.0.0.1:0");
    ASSERT_TRUE(gone.ok());
    unused = gone->port();
  }
  const auto peers = Connected(
      {{.name = "a", .address = absl::StrCat("127.0.0.1:", listener->port())},
       {.name = "b", .address = absl::StrCat("127.0.0.1:", unused)}});
  const Finding reached = PeerFinding(peers[0]);
  EXPECT_EQ(reached.check, "peer a");
  EXPECT_EQ(reached.level, Level::kOk) << reached.what;
  const Finding refused = PeerFinding(peers[1]);
  EXPECT_EQ(refused.level, Level::kWarning);
  EXPECT_THAT(refused.what, HasSubstr("Connection refused"));
  EXPECT_THAT(refused.why, HasSubstr("nothing listens there"));
  const Finding both = WorkersFinding(peers);
  EXPECT_EQ(both.level, Level::kFailure);
  EXPECT_THAT(both.what, HasSubstr("1 of 2 connect from here"));
  EXPECT_THAT(both.what, HasSubstr(absl::StrCat("; not b (127.0.0.1:", unused,
                                                ": connect: Connection")));
  EXPECT_EQ(WorkersFinding({peers[0]}).level, Level::kOk);
}

TEST(PeersTest, OneThatCannotBeReachedIsAFailure) {
  const DeafPort port;
  const auto peers = Connected({{.name = "far", .address = port.address()}},
                               absl::Milliseconds(200));
  const Finding finding = PeerFinding(peers[0]);
  EXPECT_EQ(finding.level, Level::kFailure) << finding.what;
  EXPECT_EQ(finding.code, ExitCode::kRetryElsewhere);
  EXPECT_EQ(finding.what,
            absl::StrCat(port.address(), ": no connection within 200ms"));
  EXPECT_THAT(finding.remedy, HasSubstr("--data_ports"));
}

TEST(PeersTest, OneThatIsNotToBeTriedIsAWarning) {
  auto listener = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  const PeerFacts named = {
      .name = "w3", .address = "node-1:29500", .is_tried = false};
  const PeerFacts there = {.name = "w1",
                           .address = listener->address().ToString()};
  const Finding finding = WorkersFinding(Connected({named, there}));
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_EQ(finding.what,
            "1 of 1 connect from here; not tried: w3 at node-1:29500");
  EXPECT_THAT(finding.remedy, HasSubstr("--peers"));
  const PeerFacts broken = {.name = "w2", .address = "no address"};
  const Finding failed = WorkersFinding(Connected({named, there, broken}));
  EXPECT_EQ(failed.level, Level::kFailure);
  EXPECT_THAT(failed.what, HasSubstr("1 of 2 connect from here; not w2 ("));
  EXPECT_THAT(failed.what, HasSubstr("; not tried: w3 at node-1:29500"));
}

TEST(PeersTest, AMalformedAddressIsItsOwnFailure) {
  const auto peers = Connected({{.name = "x", .address = "x"}});
  EXPECT_EQ(peers[0].status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringmaster::ctl
