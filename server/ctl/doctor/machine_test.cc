#include "server/ctl/doctor/machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGibibyte = int64_t{1} << 30;

MachineFacts GoodFacts() {
  return {.cores = 64,
          .numa_nodes = 2,
          .cpu_quota = "max 100000",
          .memory_bytes = 256 * kGibibyte,
          .available_bytes = 200 * kGibibyte,
          .swap_used_bytes = 0,
          .open_files = Limit{1024, 524288},
          .locked_memory = Limit{},
          .clock_source = "tsc",
          .is_cuda_wanted = true};
}

Finding Of(const MachineFacts& facts, std::string_view check) {
  for (const Finding& finding : MachineFindings(facts)) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding on " << check;
  return {};
}

void ExpectWarning(const MachineFacts& facts, std::string_view check,
                   const std::string& what, const std::string& remedy) {
  const Finding finding = Of(facts, check);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.what, HasSubstr(what));
  EXPECT_THAT(finding.remedy, HasSubstr(remedy));
  EXPECT_FALSE(finding.why.empty());
}

TEST(MachineTest, AGoodMachineIsOk) {
  for (const Finding& finding : MachineFindings(GoodFacts())) {
    EXPECT_EQ(finding.level, Level::kOk) << finding.check;
    EXPECT_FALSE(finding.what.empty()) << finding.check;
  }
  EXPECT_EQ(Of(GoodFacts(), "cores").what, "64, in 2 NUMA nodes");
  EXPECT_EQ(Of(GoodFacts(), "locked memory").what, "unlimited");
}

TEST(MachineTest, WhatIsNotKnownIsNoFault) {
  for (const Finding& finding : MachineFindings({})) {
    EXPECT_EQ(finding.level, Level::kOk) << finding.check;
    EXPECT_THAT(finding.what, HasSubstr("not known")) << finding.check;
  }
}

TEST(MachineTest, AQuotaBelowACoreLooksLikeAFrozenProcess) {
  MachineFacts facts = GoodFacts();
  facts.cpu_quota = "50000 100000";
  ExpectWarning(facts, "cores", "pays for 0.5", "CPU limit");
  facts.cpu_quota = "150000 100000";
  EXPECT_EQ(Of(facts, "cores").level, Level::kOk);
  EXPECT_THAT(Of(facts, "cores").what, HasSubstr("pays for 1.5"));
}

TEST(MachineTest, LittleMemoryAndSwapInUse) {
  MachineFacts facts = GoodFacts();
  facts.available_bytes = 100 << 20;
  ExpectWarning(facts, "memory", "100MiB available", "limit");
  facts.swap_used_bytes = kGibibyte;
  ExpectWarning(facts, "swap", "1.00GiB in use", "swapoff");
}

TEST(MachineTest, LowLimits) {
  MachineFacts facts = GoodFacts();
  facts.open_files = Limit{256, 4096};
  ExpectWarning(facts, "open files", "at most 256 (hard limit 4096)",
                "ulimit -n");
  facts.locked_memory = Limit{8 << 20, 8 << 20};
  ExpectWarning(facts, "locked memory", "8.00MiB", "ulimit -l");
  facts.is_cuda_wanted = false;
  EXPECT_EQ(Of(facts, "locked memory").level, Level::kOk);
}

TEST(MachineTest, ASlowClock) {
  MachineFacts facts = GoodFacts();
  facts.clock_source = "hpet";
  ExpectWarning(facts, "clock source", "hpet", "tsc");
  facts.clock_source = "kvm-clock";
  EXPECT_EQ(Of(facts, "clock source").level, Level::kOk);
}

TEST(MachineTest, ThisMachineHasCoresAndMemory) {
  const MachineFacts facts = GatherMachineFacts(false);
  EXPECT_GT(facts.cores, 0);
  EXPECT_GT(facts.memory_bytes, 0);
  EXPECT_TRUE(facts.open_files.has_value());
}

}  // namespace
}  // namespace ringmaster::ctl
