#include "server/ctl/doctor/network.h"

#include "common/transport/tcp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const Interface kLoopback{.name = "lo",
                          .address = "127.0.0.1",
                          .is_loopback = true,
                          .mtu = 65536,
                          .speed_mbits = -1};
const Interface kEth0{.name = "eth0",
                      .address = "10.0.0.7",
                      .is_loopback = false,
                      .mtu = 9000,
                      .speed_mbits = 25000};

TEST(InterfacesTest, ListsThoseThatOthersReach) {
  const Finding finding = InterfacesFinding({kLoopback, kEth0}, false);
  EXPECT_EQ(finding,
            Good("interfaces", "eth0 10.0.0.7 (MTU 9000, 25000 Mbit/s)"));
}

TEST(InterfacesTest, LoopbackIsEnoughForACoordinatorThere) {
  EXPECT_EQ(InterfacesFinding({kLoopback}, true).level, Level::kOk);
  const Finding finding = InterfacesFinding({kLoopback}, false);
  EXPECT_EQ(finding.level, Level::kFailure);
  EXPECT_EQ(finding.code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(InterfacesFinding({}, false).what, HasSubstr("not known"));
}

TEST(HostNameTest, DebiansLoopbackNameIsAWarning) {
  const Finding finding =
      HostNameFinding({"node-7", {"127.0.1.1"}, ""}, {kLoopback, kEth0});
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_EQ(finding.what, "node-7 is 127.0.1.1");
  EXPECT_THAT(finding.remedy, HasSubstr("10.0.0.7"));
}

TEST(HostNameTest, ARealAddressNoneAndNoNetworkAreFine) {
  EXPECT_EQ(HostNameFinding({"node-7", {"10.0.0.7"}, ""}, {kEth0}).level,
            Level::kOk);
  EXPECT_EQ(HostNameFinding({"node-7", {}, "no such name"}, {kEth0}).level,
            Level::kOk);
  EXPECT_EQ(HostNameFinding({"node-7", {"127.0.1.1"}, ""}, {kLoopback}).level,
            Level::kOk);
}

TEST(CoordinatorNameTest, MustResolve) {
  const Finding finding = CoordinatorNameFinding({"head", {}, "no such name"});
  EXPECT_EQ(finding.level, Level::kFailure);
  EXPECT_EQ(finding.code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(finding.what, HasSubstr("head has no address: no such name"));
}

TEST(CoordinatorNameTest, ANameThatIsLoopbackHereIsAWarning) {
  EXPECT_EQ(CoordinatorNameFinding({"head", {"127.0.1.1"}, ""}).level,
            Level::kWarning);
  EXPECT_EQ(CoordinatorNameFinding({"localhost", {"127.0.0.1"}, ""}).level,
            Level::kOk);
  EXPECT_EQ(CoordinatorNameFinding({"127.0.0.1", {"127.0.0.1"}, ""}).level,
            Level::kOk);
  EXPECT_EQ(CoordinatorNameFinding({"head", {"10.0.0.1"}, ""}).level,
            Level::kOk);
}

TEST(RouteTest, SaysWhichInterfaceOrThatThereIsNone) {
  EXPECT_EQ(RouteFinding("10.0.0.1", {"10.0.0.7", "eth0", ""}).what,
            "to 10.0.0.1 by eth0, from 10.0.0.7");
  const Finding finding =
      RouteFinding("10.9.0.1", {"", "", "Network is unreachable"});
  EXPECT_EQ(finding.level, Level::kFailure);
  EXPECT_THAT(finding.what, HasSubstr("Network is unreachable"));
}

TEST(TcpTest, BbrNeedsAnotherInsideAHost) {
  TcpFacts facts{"bbr", "reno bbr cubic", 8 << 20, 8 << 20};
  EXPECT_EQ(TcpFindings(facts, false)[0],
            Good("TCP", "bbr, and cubic inside this host"));
  facts.available_controls = "bbr";
  const Finding finding = TcpFindings(facts, false)[0];
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.remedy, HasSubstr("tcp_cubic"));
  EXPECT_THAT(TcpFindings({}, false)[0].what, HasSubstr("not known"));
}

TEST(TcpTest, SmallBuffersMatterBetweenHosts) {
  const TcpFacts facts{"cubic", "cubic", 212992, 8 << 20};
  EXPECT_EQ(TcpFindings(facts, true)[1].level, Level::kOk);
  const Finding finding = TcpFindings(facts, false)[1];
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.what, HasSubstr("208KiB to receive"));
  EXPECT_THAT(finding.remedy, HasSubstr("rmem_max"));
}

TEST(PortsTest, OneFreePortWillDo) {
  EXPECT_EQ(PortsFinding({{29500, 29503}, 1, "in use"}),
            Good("data ports", "1 of 4 free in 29500-29503"));
  const Finding finding = PortsFinding({{29500, 29503}, 0, "in use"});
  EXPECT_EQ(finding.level, Level::kFailure);
  EXPECT_EQ(finding.code, ExitCode::kRetryElsewhere);
}

TEST(NetworkFactsTest, ThisMachineHasLoopback) {
  const std::vector<Interface> interfaces = GatherInterfaces();
  std::vector<std::string> addresses;
  for (const Interface& interface : interfaces)
    addresses.push_back(interface.address);
  EXPECT_THAT(addresses, Contains("127.0.0.1"));
  EXPECT_EQ(RouteTo("127.0.0.1", 1, interfaces).interface, "lo");
  EXPECT_THAT(ResolveName("127.0.0.1").addresses, Contains("127.0.0.1"));
  EXPECT_FALSE(OwnHostName().empty());
}

TEST(NetworkFactsTest, APortInUseIsNotFree) {
  const absl::StatusOr<Listener> listener = Listener::Listen("[::]:0");
  ASSERT_TRUE(listener.ok());
  const PortFacts facts = GatherPortFacts({listener->port(), listener->port()});
  EXPECT_EQ(facts.free_count, 0);
  EXPECT_THAT(facts.error, HasSubstr("in use"));
}

TEST(NetworkFactsTest, ThisMachinesFindings) {
  EXPECT_EQ(NetworkFindings(std::nullopt).size(), 3);
  EXPECT_EQ(OwnNameFindings().size(), 1);
  const std::vector<Finding> there =
      CoordinatorNameFindings(HostPort{"127.0.0.1", 29400});
  ASSERT_EQ(there.size(), 2);
  EXPECT_EQ(there[1], Good("route", "to 127.0.0.1 by lo, from 127.0.0.1"));
}

}  // namespace
}  // namespace ringmaster::ctl
