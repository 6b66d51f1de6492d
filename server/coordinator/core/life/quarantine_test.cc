#include "server/coordinator/core/life/quarantine.h"

#include <gtest/gtest.h>

#include <string>

namespace ringmaster::coordinator {
namespace {

MonotonicTime At(int seconds) {
  return MonotonicTime::FromNanos(1) + absl::Seconds(seconds);
}

// One fault on each of `hosts`, each in a generation of its own.
std::deque<HostFault> FaultsOn(const std::vector<std::string>& hosts) {
  std::deque<HostFault> faults;
  int64_t generation = 0;
  for (const std::string& host : hosts) {
    ++generation;
    EXPECT_TRUE(AddHostFault(
        faults, {At(static_cast<int>(generation)), generation, host, "j-1"},
        absl::Minutes(10)));
  }
  return faults;
}

TEST(QuarantineTest, OnlyWhatAHostMayCauseCountsAgainstIt) {
  EXPECT_TRUE(CountsAgainstHost(v1::EVIDENCE_KIND_STREAM_BROKEN));
  EXPECT_TRUE(CountsAgainstHost(v1::EVIDENCE_KIND_LEASE_EXPIRED));
  EXPECT_TRUE(CountsAgainstHost(v1::EVIDENCE_KIND_NO_PROGRESS));
  EXPECT_TRUE(CountsAgainstHost(v1::EVIDENCE_KIND_PEER_REPORT));
  EXPECT_TRUE(CountsAgainstHost(v1::EVIDENCE_KIND_HALT_UNANSWERED));
  EXPECT_FALSE(CountsAgainstHost(v1::EVIDENCE_KIND_LEFT));
  EXPECT_FALSE(CountsAgainstHost(v1::EVIDENCE_KIND_SELF_REPORT));
  EXPECT_FALSE(CountsAgainstHost(v1::EVIDENCE_KIND_SUPERSEDED));
}

TEST(QuarantineTest, WorkersThatFallTogetherAreOneFault) {
  std::deque<HostFault> faults = FaultsOn({"x"});
  EXPECT_FALSE(AddHostFault(faults, {At(2), 1, "x", "j-1"}, absl::Minutes(10)));
  EXPECT_TRUE(AddHostFault(faults, {At(2), 1, "y", "j-1"}, absl::Minutes(10)));
  EXPECT_EQ(faults.size(), 2u);
}

TEST(QuarantineTest, FaultsBeforeTheWindowAreForgotten) {
  std::deque<HostFault> faults = FaultsOn({"x", "x"});
  EXPECT_TRUE(
      AddHostFault(faults, {At(602), 9, "x", "j-1"}, absl::Minutes(10)));
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults.front().generation, 9);
}

TEST(QuarantineTest, HostIsDueWithEnoughFaultsAndHalfOfAll) {
  const Config config;
  EXPECT_EQ(QuarantineReason(FaultsOn({"x", "x"}), "j-1", "x", config), "");
  EXPECT_EQ(QuarantineReason(FaultsOn({"x", "x", "x"}), "j-1", "x", config),
            "3 of 3 incidents within 10m");
  EXPECT_EQ(QuarantineReason(FaultsOn({"x", "y", "x", "z", "x", "y"}), "j-1",
                             "x", config),
            "3 of 6 incidents within 10m");
  EXPECT_EQ(QuarantineReason(FaultsOn({"x", "y", "x", "z", "x", "y", "z"}),
                             "j-1", "x", config),
            "");
}

TEST(QuarantineTest, IncidentsOfOtherJobsDoNotCount) {
  const Config config;
  const std::deque<HostFault> faults = FaultsOn({"x", "x", "x"});
  EXPECT_EQ(QuarantineReason(faults, "j-2", "x", config), "");
}

TEST(QuarantineTest, LimitOfNoneMeansNever) {
  Config config;
  config.quarantine_faults = 0;
  EXPECT_EQ(
      QuarantineReason(FaultsOn({"x", "x", "x", "x"}), "j-1", "x", config), "");
}

}  // namespace
}  // namespace ringmaster::coordinator
