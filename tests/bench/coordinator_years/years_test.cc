// The benchmark in small: what does not grow there does not grow here.
#include "tests/bench/coordinator_years/years.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace ringmaster {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

std::string FreshDirectory(const std::string& name) {
  const std::string directory = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(directory);
  return directory;
}

TEST(YearsTest, ManyJobsLeaveASmallJournal) {
  const YearsOptions options = {.state_dir = FreshDirectory("many"),
                                .members = 64,
                                .jobs = 1000,
                                .time = absl::Hours(8),
                                .failure_budget = absl::Minutes(5),
                                .beat_interval = absl::Minutes(1),
                                .death_interval = absl::Minutes(10)};
  const absl::StatusOr<YearsResult> result = RunYears(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(result->succeeded, options.jobs - 1) << ToText(options, *result);
  EXPECT_GT(result->deaths, 40);
  EXPECT_GT(result->journal_bytes, 0);
  EXPECT_LT(result->journal_bytes, 24 * kMebibyte) << ToText(options, *result);
}

TEST(YearsTest, ALongJobWithManyFaultsLeavesASmallJournal) {
  const YearsOptions options = {.state_dir = FreshDirectory("long"),
                                .members = 256,
                                .steps = 1500,
                                .time = absl::Minutes(30),
                                .death_interval = absl::Seconds(10)};
  const absl::StatusOr<YearsResult> result = RunYears(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->deaths, 170);
  EXPECT_GT(result->journal_bytes, 0);
  // Each generation takes 62 KB, twice that many were formed.
  EXPECT_LT(result->journal_bytes, 10 * kMebibyte) << ToText(options, *result);
}

}  // namespace
}  // namespace ringmaster
