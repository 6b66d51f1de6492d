#include "worker/train/exchange/live_generation.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/data/dataset.h"
#include "worker/data/permutation_sampler.h"

namespace ringmaster {
namespace {

// A rank that is alone, in its first generation.
class LiveGenerationTest : public ::testing::Test {
 protected:
  LiveGenerationTest() { live_.Begin(1); }

  LiveGeneration live_;
  const std::unique_ptr<WorldOfThreads> ring_ =
      WorldOfThreads::Create({.world_size = 1}).value();
  Communicator& communicator_ = ring_->communicator(0);
  const std::unique_ptr<Dataset> dataset_ =
      CreateDataset({.kind = "synthetic", .num_samples = 64}).value();
  const PermutationSampler sampler_{7, dataset_->size(Split::kTrain)};
  Prefetcher prefetcher_{*dataset_,
                         sampler_,
                         {.global_batch = 8, .max_local_batch = 8},
                         Clock::Real()};
};

TEST_F(LiveGenerationTest, AnAbortReachesWhatIsExposed) {
  ASSERT_TRUE(prefetcher_.Start(1, 0, 1).ok());
  ASSERT_TRUE(live_.Expose(communicator_, &prefetcher_).ok());
  live_.Abort(1, "a peer was lost");
  EXPECT_TRUE(live_.cancel()->is_cancelled());
  EXPECT_TRUE(absl::IsAborted(communicator_.Start(Barrier()).status()));
  EXPECT_TRUE(absl::IsAborted(
      prefetcher_.Next(Clock::Real().Now() + absl::Seconds(30)).status()));
}

TEST_F(LiveGenerationTest, WhatServersAreForIsReachedToo) {
  const auto waits = [] {
    return SyncProgress{.completed = 5, .waiting_for_rank = 3};
  };
  CancelToken host;
  ASSERT_TRUE(live_.Expose(communicator_, &prefetcher_).ok());
  EXPECT_EQ(live_.communication().waiting_for_rank, -1);
  ASSERT_TRUE(live_.ExposeServers(waits, &host).ok());
  EXPECT_EQ(live_.communication().waiting_for_rank, 3);
  EXPECT_EQ(live_.communication().completed, 5);
  live_.Abort(1, "a peer was lost");
  EXPECT_TRUE(host.is_cancelled());
  EXPECT_TRUE(absl::IsAborted(live_.ExposeServers(waits, nullptr)));
}

TEST_F(LiveGenerationTest, WhatIsNotExposedAnyMoreIsLeftAlone) {
  ASSERT_TRUE(live_.Expose(communicator_, &prefetcher_).ok());
  ASSERT_TRUE(communicator_.Start(Barrier()).ok());
  EXPECT_EQ(live_.communication().completed, 1);
  live_.Unexpose();
  EXPECT_EQ(live_.communication().completed, 0);
  live_.Abort(1, "late");
  EXPECT_TRUE(live_.cancel()->is_cancelled());
  EXPECT_TRUE(communicator_.Start(Barrier()).ok());
}

TEST_F(LiveGenerationTest, AGenerationThatWasAbortedIsNotExposed) {
  live_.Abort(1, "a peer was lost");
  EXPECT_TRUE(absl::IsAborted(live_.Expose(communicator_, &prefetcher_)));
  EXPECT_TRUE(communicator_.Start(Barrier()).ok());
}

TEST_F(LiveGenerationTest, AnAbortMayComeBeforeItsGeneration) {
  live_.Abort(2, "halted at once");
  live_.Begin(2);
  EXPECT_TRUE(live_.cancel()->is_cancelled());
  live_.Begin(3);
  EXPECT_FALSE(live_.cancel()->is_cancelled());
}

TEST_F(LiveGenerationTest, AnAbortOfAnEarlierGenerationIsIgnored) {
  const std::shared_ptr<const CancelToken> first = live_.cancel();
  live_.Begin(2);
  live_.Abort(1, "late");
  EXPECT_FALSE(live_.cancel()->is_cancelled());
  EXPECT_FALSE(first->is_cancelled());
}

}  // namespace
}  // namespace ringmaster
