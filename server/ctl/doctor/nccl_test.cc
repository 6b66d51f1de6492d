#include "server/ctl/doctor/nccl.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// In the words of NCCL 2.28.
constexpr std::string_view kInfiniBand =
    "node:9:9 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    "node:9:12 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE "
    "[RO]; OOB eth0:10.0.0.1<0>\n"
    "node:9:12 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 "
    "'mlx5_0'\n"
    "node:9:12 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 1 "
    "'mlx5_1'\n"
    "node:9:12 [0] NCCL INFO Using network IB\n"
    "node:9:12 [0] NCCL INFO NVLS multicast support is available on dev 0 "
    "(NVLS_NCHANNELS 16)\n"
    "node:9:13 [1] NCCL INFO NVLS multicast support is available on dev 1 "
    "(NVLS_NCHANNELS 16)\n"
    "node:9:12 [0] NCCL INFO Channel 00/24 : 0 1\n"
    "node:9:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    "node:9:13 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/direct "
    "pointer\n";

constexpr std::string_view kPlain =
    "node:9:9 [0] NCCL INFO Bootstrap: Using eth0:192.0.2.2<0>\n"
    "node:9:12 [0] NCCL INFO NET/IB : No device found.\n"
    "node:9:12 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0> "
    "[1]eth1:fe80::1%eth1<0>\n"
    "node:9:12 [0] NCCL INFO Using network Socket\n"
    "node:9:12 [0] NCCL INFO NVLS multicast support is not available on dev 0 "
    "(NVLS_NCHANNELS 0)\n"
    "node:9:12 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
    "node:9:13 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via "
    "NET/Socket/0\n";

NcclFacts Facts(std::string_view log, int gpus = 2) {
  return {.gpus = gpus, .error = {}, .log = std::string(log)};
}

Finding Of(const NcclFacts& facts, std::string_view check) {
  for (const Finding& finding : NcclFindings(facts)) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding on " << check;
  return {};
}

TEST(NcclTest, ALogOfInfiniBandIsRead) {
  const NcclReport report = ParseNcclLog(kInfiniBand);
  EXPECT_EQ(report.bootstrap, "eth0:10.0.0.1");
  EXPECT_EQ(report.network, "IB");
  EXPECT_THAT(report.interfaces, ElementsAre("mlx5_0:1/IB", "mlx5_1:1/RoCE"));
  EXPECT_THAT(report.has_gpu_direct,
              ElementsAre(Pair("mlx5_0", true), Pair("mlx5_1", true)));
  EXPECT_THAT(report.connections, ElementsAre(Pair("P2P", 2)));
  EXPECT_EQ(report.gpus_with_nvls, 2);
}

TEST(NcclTest, AGoodNode) {
  const NcclFacts facts = Facts(kInfiniBand);
  for (const Finding& finding : NcclFindings(facts))
    EXPECT_EQ(finding.level, Level::kOk) << finding.check << finding.what;
  EXPECT_EQ(Of(facts, "NCCL's network").what,
            "IB by mlx5_0:1/IB, mlx5_1:1/RoCE; ranks meet by eth0:10.0.0.1");
  EXPECT_EQ(Of(facts, "GPUDirect RDMA").what, "with all of 2 network adapters");
  EXPECT_EQ(Of(facts, "GPU to GPU").what, "P2P on 2 connections");
  EXPECT_EQ(Of(facts, "NVLS").what, "reduction in the switch with 2 of 2 GPUs");
}

TEST(NcclTest, ANodeWithoutFastWays) {
  const NcclFacts facts = Facts(kPlain);
  EXPECT_EQ(Of(facts, "NCCL's network").what,
            "Socket by eth0:192.0.2.2, eth1:fe80::1%eth1; ranks meet by "
            "eth0:192.0.2.2");
  EXPECT_EQ(Of(facts, "GPUDirect RDMA").what, "none: the network is Socket");
  const Finding ways = Of(facts, "GPU to GPU");
  EXPECT_EQ(ways.level, Level::kWarning);
  EXPECT_EQ(ways.what, "NET on 1 connection, SHM on 1 connection");
  // Most machines have none.
  EXPECT_EQ(Of(facts, "NVLS").level, Level::kOk);
  EXPECT_THAT(Of(facts, "NVLS").what, HasSubstr("0 of 1 GPU"));
}

TEST(NcclTest, AnAdapterWithoutGpuDirectIsNamed) {
  const Finding finding =
      Of(Facts("n:1:1 [0] NCCL INFO Using network IB\n"
               "n:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA "
               "0 'mlx5_0'\n"
               "n:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA "
               "1 'mlx5_1'\n"),
         "GPUDirect RDMA");
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_EQ(finding.what, "not with mlx5_0");
  EXPECT_THAT(finding.remedy, HasSubstr("nvidia_peermem"));
}

TEST(NcclTest, LoopbackAloneReachesNobody) {
  const Finding finding =
      Of(Facts("n:1:1 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n"
               "n:1:1 [0] NCCL INFO Using network Socket\n"),
         "NCCL's network");
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.remedy, HasSubstr("NCCL_SOCKET_IFNAME"));
}

TEST(NcclTest, OneGpuHasNoWayToAnother) {
  for (const Finding& finding : NcclFindings(Facts(kInfiniBand, 1)))
    EXPECT_NE(finding.check, "GPU to GPU");
}

TEST(NcclTest, OtherWordsAreNotKnownAndNoFault) {
  for (const Finding& finding :
       NcclFindings(Facts("n:1:1 [0] NCCL INFO NET/X : GPU Direct RDMA Enabled "
                          "for HCA 0\n[]\nNCCL INFO \n"
                          "n:1:1 [0] NCCL INFO NET/Y : Using [ ] [0 ][0] x\n"
                          "n:1:1 [0] NCCL INFO Channel 0 via \n"))) {
    EXPECT_NE(finding.level, Level::kFailure) << finding.check;
  }
  for (const Finding& finding : NcclFindings(Facts("")))
    EXPECT_EQ(finding.level, Level::kOk) << finding.check;
}

TEST(NcclTest, AStartThatFailsHasNcclsLastWarning) {
  NcclFacts facts = Facts(
      "\n[2026-11-22 18:39:27] vm:17092:17092 [0] init.cc:2076 NCCL WARN Cuda "
      "failure 'out of memory'\n");
  facts.error = "ncclCommInitAll: unhandled cuda error";
  const std::vector<Finding> findings = NcclFindings(facts);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_EQ(findings[0].what,
            "ncclCommInitAll: unhandled cuda error: Cuda failure 'out of "
            "memory'");
  EXPECT_FALSE(findings[0].remedy.empty());
}

}  // namespace
}  // namespace ringmaster::ctl
