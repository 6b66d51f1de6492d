#include "server/ctl/doctor/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

// A port of this host that answers nobody, as behind a firewall that drops: its
// queue of connections is full.
class SilentPort {
 public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any),
                     sizeof any),
              0);
    EXPECT_EQ(::listen(socket_.get(), 0), 0);
    const auto own = LocalAddress(socket_.get());
    EXPECT_TRUE(own.ok());
    address_ = own->ToString();
    for (int i = 0; i < 4; ++i) {
      auto filler = BeginConnect(*own);
      EXPECT_TRUE(filler.ok());
      fillers_.push_back(*std::move(filler));
    }
  }
  const std::string& address() const { return address_; }

 private:
  UniqueFd socket_;
  std::string address_;
  std::vector<UniqueFd> fillers_;
};

std::vector<PeerFacts> Connected(std::vector<PeerFacts> peers,
                                 absl::Duration limit = absl::Seconds(20)) {
  ConnectToPeers(limit, CancelToken(), Clock::Real(), peers);
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
  EXPECT_THAT(both.what, HasSubstr(absl::StrCat("; not b at 127.0.0.1:", unused,
                                                " (connect: Connection")));
  EXPECT_EQ(WorkersFinding({peers[0]}).level, Level::kOk);
}

TEST(PeersTest, OneThatCannotBeReachedIsAFailure) {
  const SilentPort port;
  const auto peers = Connected({{.name = "far", .address = port.address()}},
                               absl::Milliseconds(200));
  const Finding finding = PeerFinding(peers[0]);
  EXPECT_EQ(finding.level, Level::kFailure) << finding.what;
  EXPECT_EQ(finding.code, ExitCode::kRetryElsewhere);
  EXPECT_EQ(finding.what, "no answer within 200ms");
  EXPECT_THAT(finding.remedy, HasSubstr("--data_ports"));
}

TEST(PeersTest, ATokenEndsTheWait) {
  const SilentPort port;
  CancelToken cancel;
  cancel.Cancel("enough");
  std::vector<PeerFacts> peers = {{.name = "far", .address = port.address()}};
  ConnectToPeers(absl::Hours(1), cancel, Clock::Real(), peers);
  EXPECT_EQ(peers[0].status.message(), "enough");
}

TEST(PeersTest, AMalformedAddressIsItsOwnFailure) {
  const auto peers = Connected({{.name = "x", .address = "x"}});
  EXPECT_EQ(peers[0].status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringmaster::ctl
