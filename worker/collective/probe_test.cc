#include "worker/collective/probe.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "common/fail_point/fail_point.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "common/machine/usable_cores.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Under sanitizers, and beside other tests, a machine is slow.
ProbeOptions PatientOptions() {
  ProbeOptions options;
  options.clock = &Clock::Real();
  options.time_limit = absl::Seconds(5);
  return options;
}

TEST(ProbeTest, MeasuresWhatCanBe) {
  const ProbeResult result = MeasureCosts(PatientOptions());
  EXPECT_THAT(result.remarks, IsEmpty());
  EXPECT_TRUE(result.has_path);
  EXPECT_TRUE(CheckCosts(result.costs).ok()) << CheckCosts(result.costs);
  const MachineCosts defaults;
  EXPECT_NE(result.costs.shared_memory, defaults.shared_memory);
  EXPECT_NE(result.costs.unix_socket, defaults.unix_socket);
  EXPECT_NE(result.costs.tcp, defaults.tcp);
  EXPECT_NE(result.costs.reduce_seconds_per_byte,
            defaults.reduce_seconds_per_byte);
  EXPECT_EQ(result.costs.remote, defaults.remote);
  EXPECT_EQ(result.costs.cores, UsableCores());
}

TEST(ProbeTest, WhatIsForbiddenKeepsTheDefault) {
  FailPoint::Arm("share_memory.create", FailPoint::Action::kError);
  const absl::Cleanup disarm = [] { FailPoint::DisarmAll(); };
  const ProbeResult result = MeasureCosts(PatientOptions());
  EXPECT_THAT(result.remarks, ElementsAre(StartsWith("shared_memory: ")));
  EXPECT_EQ(result.costs.shared_memory, MachineCosts().shared_memory);
  EXPECT_NE(result.costs.unix_socket, MachineCosts().unix_socket);
}

TEST(ProbeTest, ACollectiveThatFailsKeepsTheDefaultsAndEnds) {
  FailPoint::Arm("collective.begin", FailPoint::Action::kError);
  const absl::Cleanup disarm = [] { FailPoint::DisarmAll(); };
  const ProbeResult result = MeasureCosts(PatientOptions());
  EXPECT_THAT(result.remarks,
              ElementsAre(StartsWith("tcp: "), StartsWith("unix: "),
                          StartsWith("shared_memory: ")));
  EXPECT_FALSE(result.has_path);
  EXPECT_EQ(result.costs.tcp, MachineCosts().tcp);
  EXPECT_TRUE(CheckCosts(result.costs).ok()) << CheckCosts(result.costs);
}

TEST(ProbeTest, NoTimeIsEnoughForABurstOfEachOrTheDefault) {
  ProbeOptions options = PatientOptions();
  options.time_limit = absl::ZeroDuration();
  EXPECT_TRUE(CheckCosts(MeasureCosts(options).costs).ok());
}

TEST(ProbeTest, ALinksSpeedIsWhatGoesBetweenHosts) {
  const std::filesystem::path directory =
      std::filesystem::path(std::getenv("TEST_TMPDIR")) / "net";
  const auto remote = [&](const std::string& speed) {
    std::filesystem::create_directories(directory / "eth7");
    std::ofstream(directory / "eth7" / "speed") << speed;
    ProbeOptions options = PatientOptions();
    options.time_limit = absl::ZeroDuration();
    options.network_interface = "eth7";
    options.network_directory = directory.string();
    return MeasureCosts(options).costs.remote;
  };
  EXPECT_DOUBLE_EQ(remote("25000\n").seconds_per_byte, 3.2e-10);
  EXPECT_EQ(remote("25000\n").latency, MachineCosts().remote.latency);
  // The kernel does not know the rate of a virtual interface, or of one that is
  // down.
  EXPECT_EQ(remote("-1\n"), MachineCosts().remote);
  EXPECT_EQ(remote("fast"), MachineCosts().remote);
}

}  // namespace
}  // namespace ringmaster
