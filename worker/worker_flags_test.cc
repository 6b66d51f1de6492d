#include "worker/worker_flags.h"

#include <vector>

#include "common/config/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

WorkerFlags Good() {
  WorkerFlags flags;
  flags.name = "node-1";
  flags.coordinator = "head:29400";
  return flags;
}

std::string Refusal(const WorkerFlags& given) {
  WorkerFlags flags = given;
  const absl::Status status = SettleWorkerFlags(flags);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(WorkerFlagsTest, ListensEverywhereForARemoteCoordinator) {
  WorkerFlags flags = Good();
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "[::]:0");
  EXPECT_EQ(flags.advertise, "");
}

TEST(WorkerFlagsTest, StaysOnLoopbackBesideALocalCoordinator) {
  for (const auto& [coordinator, host] :
       std::vector<std::pair<std::string, std::string>>{
           {"127.0.0.1:29400", "127.0.0.1"},
           {"localhost:29400", "127.0.0.1"},
           {"[::1]:29400", "::1"}}) {
    WorkerFlags flags = Good();
    flags.coordinator = coordinator;
    ASSERT_TRUE(SettleWorkerFlags(flags).ok());
    EXPECT_EQ(flags.data_listen, (HostPort{host, 0}.ToString()));
    EXPECT_EQ(flags.advertise, host);
  }
}

TEST(WorkerFlagsTest, KeepsWhatIsGiven) {
  WorkerFlags flags = Good();
  flags.coordinator = "127.0.0.1:29400";
  flags.data_listen = "0.0.0.0:5000";
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "0.0.0.0:5000");
  EXPECT_EQ(flags.advertise, "");
}

TEST(WorkerFlagsTest, AnInterfaceIsItsAddressToListenOnAndToAdvertise) {
  WorkerFlags flags = Good();
  flags.data_interface = "lo";
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "127.0.0.1:0");
  EXPECT_EQ(flags.advertise, "127.0.0.1");

  flags = Good();
  flags.data_interface = "lo";
  flags.advertise = "10.0.0.7";
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "127.0.0.1:0");
  EXPECT_EQ(flags.advertise, "10.0.0.7");
}

TEST(WorkerFlagsTest, AnUnknownInterfaceIsNamedWithThoseThereAre) {
  WorkerFlags flags = Good();
  flags.data_interface = "eth99x";
  const absl::Status status = SettleWorkerFlags(flags);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("--data_interface"));
  EXPECT_THAT(message, HasSubstr("'eth99x'"));
  EXPECT_THAT(message, HasSubstr("lo"));
}

TEST(WorkerFlagsTest, ARangeOfPortsLeavesTheHostAsItIs) {
  WorkerFlags flags = Good();
  flags.data_ports = "29500-29503";
  flags.slots = 4;
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "[::]:0");
  EXPECT_EQ(flags.advertise, "");
  EXPECT_EQ(flags.port_range, (PortRange{29500, 29503}));

  flags = Good();
  flags.coordinator = "127.0.0.1:1";
  flags.data_ports = "1-65535";
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "127.0.0.1:0");
  EXPECT_EQ(flags.port_range, (PortRange{1, 65535}));

  flags = Good();
  flags.data_interface = "lo";
  flags.data_ports = "29500-29500";
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_EQ(flags.data_listen, "127.0.0.1:0");
  EXPECT_EQ(flags.port_range, (PortRange{29500, 29500}));

  flags = Good();
  ASSERT_TRUE(SettleWorkerFlags(flags).ok());
  EXPECT_FALSE(flags.port_range.has_value());
}

TEST(WorkerFlagsTest, RefusesWhatIsNoRangeOfPorts) {
  for (const char* const text :
       {"29500", "-", "29500-", "-29500", "0-5", "5-4", "1-65536", "a-b",
        "1-2-3", " 1-2", "1 - 2", "+1-2", "1-4294967298"}) {
    WorkerFlags flags = Good();
    flags.data_ports = text;
    EXPECT_THAT(Refusal(flags), HasSubstr("--data_ports")) << text;
    EXPECT_THAT(Refusal(flags), HasSubstr("FIRST-LAST")) << text;
  }
}

TEST(WorkerFlagsTest, ARangeHasAPortForEachSlot) {
  WorkerFlags flags = Good();
  flags.data_ports = "29500-29502";
  flags.slots = 4;
  EXPECT_THAT(Refusal(flags), HasSubstr("--data_ports: 29500-29502 has 3 "
                                        "ports, too few for --slots=4"));
}

TEST(WorkerFlagsTest, AnAddressExcludesAnInterfaceAndARange) {
  WorkerFlags flags = Good();
  flags.data_listen = "0.0.0.0:5000";
  flags.data_interface = "lo";
  EXPECT_THAT(Refusal(flags), HasSubstr("--data_interface=lo and "
                                        "--data_listen=0.0.0.0:5000"));
  flags.data_interface = "";
  flags.data_ports = "29500-29599";
  EXPECT_THAT(Refusal(flags), HasSubstr("--data_ports=29500-29599 and "
                                        "--data_listen=0.0.0.0:5000"));
}

TEST(WorkerFlagsTest, EncryptionNeedsTlsToAnotherHost) {
  WorkerFlags flags = Good();
  flags.data_encryption = "required";
  EXPECT_THAT(Refusal(flags), HasSubstr("needs TLS"));
  flags.credentials.tls_ca_file = "ca.pem";
  EXPECT_TRUE(SettleWorkerFlags(flags).ok());
  flags.credentials.tls_ca_file.clear();
  flags.coordinator = "127.0.0.1:29400";
  EXPECT_TRUE(SettleWorkerFlags(flags).ok());
  flags.listen = "127.0.0.1:29600";
  EXPECT_TRUE(SettleWorkerFlags(flags).ok());
  flags.listen = "0.0.0.0:29600";
  EXPECT_THAT(Refusal(flags),
              HasSubstr("needs TLS for --listen=0.0.0.0:29600"));
}

TEST(WorkerFlagsTest, ATrustDomainIsOfThePortThatServesParameters) {
  WorkerFlags flags = Good();
  flags.trust_domain = "Example.org";
  EXPECT_THAT(Refusal(flags),
              HasSubstr("--trust_domain: \"Example.org\" must be"));
  flags.trust_domain = "example.org";
  EXPECT_THAT(Refusal(flags), HasSubstr("give --listen, --tls_ca_file"));
  flags.credentials.tls_ca_file = "ca.pem";
  EXPECT_THAT(Refusal(flags), HasSubstr("give --listen, --tls_ca_file"));
  flags.listen = "127.0.0.1:29600";
  EXPECT_TRUE(SettleWorkerFlags(flags).ok());
}

TEST(WorkerFlagsTest, SeveralSlotsOrTheWishToRestartNeedASupervisor) {
  WorkerFlags flags = Good();
  EXPECT_FALSE(NeedsSupervisor(flags));
  flags.restart = "always";
  EXPECT_TRUE(NeedsSupervisor(flags));
  flags.restart = "never";
  EXPECT_FALSE(NeedsSupervisor(flags));
  flags.slots = 2;
  EXPECT_TRUE(NeedsSupervisor(flags));
}

TEST(WorkerFlagsTest, NamesTheFlagThatIsWrong) {
  WorkerFlags flags = Good();
  flags.coordinator = "head";
  EXPECT_THAT(Refusal(flags), HasSubstr("--coordinator"));
  flags.coordinator = "head:0";
  EXPECT_THAT(Refusal(flags), HasSubstr("--coordinator"));
  flags = Good();
  flags.data_listen = "nonsense";
  EXPECT_THAT(Refusal(flags), HasSubstr("--data_listen"));
  flags = Good();
  flags.share_gpu = true;
  EXPECT_THAT(Refusal(flags), HasSubstr("--share_gpu"));
  flags = Good();
  flags.name = "";
  EXPECT_THAT(Refusal(flags), HasSubstr("--name"));
  flags = Good();
  flags.labels = "gpu=h100,zone";
  EXPECT_THAT(Refusal(flags), HasSubstr("--labels: \"zone\" is not KEY=VALUE"));
}

TEST(WorkerFlagsTest, ParsesAFullCommandLine) {
  WorkerFlags flags;
  FlagSet set("worker", "Trains.");
  AddWorkerFlags(set, flags);
  const std::vector<std::string> args = {"--coordinator=head:29400",
                                         "--name=n",
                                         "--slots=4",
                                         "--device=cpu",
                                         "--advertise=10.0.0.7",
                                         "--data_listen=[::]:5000",
                                         "--data_interface=eth0",
                                         "--data_ports=29500-29599",
                                         "--coordinator_timeout=2m",
                                         "--drain_timeout=0s",
                                         "--abort_timeout=3s",
                                         "--insecure",
                                         "--log_level=debug",
                                         "--tls_ca_file=ca.pem"};
  const auto parsed = set.Parse(args);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(flags.coordinator, "head:29400");
  EXPECT_EQ(flags.slots, 4);
  EXPECT_EQ(flags.advertise, "10.0.0.7");
  EXPECT_EQ(flags.data_interface, "eth0");
  EXPECT_EQ(flags.data_ports, "29500-29599");
  EXPECT_EQ(flags.coordinator_timeout, absl::Minutes(2));
  EXPECT_EQ(flags.drain_timeout, absl::ZeroDuration());
  EXPECT_EQ(flags.abort_timeout, absl::Seconds(3));
  EXPECT_TRUE(flags.credentials.insecure);
  EXPECT_EQ(flags.credentials.tls_ca_file, "ca.pem");
}

TEST(WorkerFlagsTest, ThreadsAreOneToTwoHundredAndFiftySix) {
  for (const auto& [value, is_good] : std::vector<std::pair<std::string, bool>>{
           {"1", true}, {"256", true}, {"0", false}, {"257", false}}) {
    WorkerFlags flags;
    FlagSet set("worker", "");
    AddWorkerFlags(set, flags);
    const std::vector<std::string> args = {"--coordinator=head:1",
                                           "--threads=" + value};
    const auto parsed = set.Parse(args);
    EXPECT_EQ(parsed.ok(), is_good) << value;
    if (is_good) {
      EXPECT_EQ(flags.threads, std::stoi(value));
    }
  }
  EXPECT_EQ(WorkerFlags().threads, 1);
}

}  // namespace
}  // namespace ringmaster
