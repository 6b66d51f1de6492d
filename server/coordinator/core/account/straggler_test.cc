#include "server/coordinator/core/account/straggler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace ringmaster::coordinator {
namespace {

// A job that trains, whose rank r has waited for waits[r].
Job JobWith(const std::vector<std::pair<int, double>>& waits) {
  Job job;
  job.stage = stage::Running{};
  for (const auto& [rank, ratio] : waits) {
    Member& member = job.members.emplace_back();
    member.identity.rank = static_cast<int>(job.members.size()) - 1;
    member.awaited_rank = rank;
    member.awaited_ratio = ratio;
  }
  return job;
}

TEST(StragglerTest, IsWhoTheOthersWaitForOnAverage) {
  const auto straggler =
      FindStraggler(JobWith({{3, 0.4}, {3, 0.3}, {3, 0.2}, {1, 0.05}}));
  ASSERT_TRUE(straggler.has_value());
  EXPECT_EQ(straggler->rank, 3);
  EXPECT_NEAR(straggler->wait_ratio, 0.3, 1e-12);
}

TEST(StragglerTest, ARankThatOneMemberNamesGetsItsShareOnly) {
  // In a ring: rank 2 is slow, rank 3 waits for it, and is waited for itself.
  const auto straggler =
      FindStraggler(JobWith({{3, 0.4}, {0, 0.35}, {-1, 0}, {2, 0.5}}));
  ASSERT_TRUE(straggler.has_value());
  EXPECT_EQ(straggler->rank, 2);
  EXPECT_NEAR(straggler->wait_ratio, 0.5 / 3, 1e-12);
}

TEST(StragglerTest, LittleWaitingIsNobodysFault) {
  EXPECT_FALSE(
      FindStraggler(JobWith({{1, kMinStragglerRatio}, {0, 0.02}})).has_value());
  EXPECT_FALSE(FindStraggler(JobWith({{-1, 0}, {-1, 0}})).has_value());
  EXPECT_FALSE(FindStraggler(JobWith({{-1, 0}})).has_value());
  EXPECT_FALSE(FindStraggler(Job()).has_value());
}

TEST(StragglerTest, RanksThatWaitForEachOtherTakeTurns) {
  EXPECT_FALSE(FindStraggler(JobWith({{1, 0.44}, {0, 0.38}})).has_value());
  EXPECT_TRUE(FindStraggler(JobWith({{1, 0.44}, {0, 0.2}})).has_value());
}

TEST(StragglerTest, NonsenseCountsForNothing) {
  EXPECT_FALSE(
      FindStraggler(JobWith({{0, 0.9}, {7, 0.9}, {0, std::nan("")}, {0, -1}}))
          .has_value());
  const auto straggler = FindStraggler(JobWith({{1, 1e9}, {0, 0}}));
  ASSERT_TRUE(straggler.has_value());
  EXPECT_EQ(straggler->wait_ratio, 1);
}

TEST(StragglerTest, AMemberThatIsLostNeitherWaitsNorIsWaitedFor) {
  Job job = JobWith({{2, 0.5}, {2, 0.5}, {0, 0.9}});
  job.members[2].is_lost = true;
  EXPECT_FALSE(FindStraggler(job).has_value());
  job = JobWith({{-1, 0}, {0, 0.5}, {1, 0.9}});
  job.members[2].is_lost = true;
  const auto straggler = FindStraggler(job);
  ASSERT_TRUE(straggler.has_value());
  EXPECT_EQ(straggler->rank, 0);
  EXPECT_NEAR(straggler->wait_ratio, 0.5, 1e-12);
}

TEST(StragglerTest, WhoWaitsForAServerThatWaitsWaitsForWhomThatWaitsFor) {
  // Ranks 3 and 4 are parameter servers; rank 1 is slow.
  Job job = JobWith({{3, 0.4}, {3, 0.01}, {4, 0.3}, {1, 0.35}, {1, 0.35}});
  job.members[3].identity.role = v1::ROLE_PARAMETER_SERVER;
  job.members[4].identity.role = v1::ROLE_PARAMETER_SERVER;
  auto straggler = FindStraggler(job);
  ASSERT_TRUE(straggler.has_value());
  EXPECT_EQ(straggler->rank, 1);
  EXPECT_NEAR(straggler->wait_ratio, 0.35, 1e-12);
  // Servers that wait for nobody are what keeps the workers waiting.
  job.members[3].awaited_rank = job.members[4].awaited_rank = -1;
  straggler = FindStraggler(job);
  ASSERT_TRUE(straggler.has_value());
  EXPECT_EQ(straggler->rank, 3);
  EXPECT_NEAR(straggler->wait_ratio, 0.41 / 3, 1e-12);
}

TEST(StragglerTest, AJobThatDoesNotTrainHasNone) {
  Job job = JobWith({{1, 0.9}, {-1, 0}});
  EXPECT_TRUE(FindStraggler(job).has_value());
  job.stage = stage::Stopping{};
  EXPECT_TRUE(FindStraggler(job).has_value());
  for (const Stage& each : {Stage(stage::Preparing{}), Stage(stage::Halting{}),
                            Stage(stage::Ended{v1::JOB_STATE_SUCCEEDED})}) {
    job.stage = each;
    EXPECT_FALSE(FindStraggler(job).has_value());
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
