#include "worker/train/exchange/non_finite_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/status/status_macros.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/train/exchange/all_reduce_sync.h"

namespace ringmaster {
namespace {

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(50); }

TEST(FindNonFiniteRanksTest, LooksFromTheGivenCollectiveOn) {
  const auto world =
      WorldOfThreads::Create(
          {.world_size = 3, .transport = Transport::kSharedMemory})
          .value();
  const auto statuses =
      world->RunAll([](Communicator& communicator) -> absl::Status {
        std::vector<float> buffer(100, 1.0f);
        if (communicator.rank() == 2) buffer[70] = std::nanf("");
        // Number 1; in 2, all that come out of it are NaN at 70.
        for (int i = 0; i < 2; ++i) {
          const absl::Status status =
              communicator.Run(AllReduceSum(BufferView::Of(buffer)), Soon());
          if (!status.ok()) return status;
          if (i == 0) buffer[70] = 0;
        }
        const auto since_first = FindNonFiniteRanks(communicator, 1, Soon());
        if (!since_first.ok()) return since_first.status();
        EXPECT_EQ(*since_first, std::vector<int>{2});
        const auto since_second = FindNonFiniteRanks(communicator, 2, Soon());
        if (!since_second.ok()) return since_second.status();
        EXPECT_EQ(*since_second, std::vector<int>());
        return absl::OkStatus();
      });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(OriginOfNonFiniteTest, NamesTheRanks) {
  const auto origin = [](const std::vector<int>& ranks, int world_size) {
    return OriginOfNonFinite(ranks, world_size);
  };
  EXPECT_EQ(origin({0}, 1), "");
  EXPECT_EQ(origin({3}, 4), "it came from rank 3");
  EXPECT_EQ(origin({0, 3}, 4), "it came from ranks 0, 3");
  EXPECT_EQ(origin({0, 1}, 2), "it came from every rank");
  EXPECT_EQ(origin({}, 2), "every rank's own was finite, their sum was not");
  std::vector<int> many(20);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(origin(many, 32),
            "it came from ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 others");
}

ProgramConfig SmallJob(int world_size) {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {8}},
                               {"embedding_dim", {8}},
                               {"hidden_dim", {32}},
                               {"hidden_layers", {2}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 4096};
  config.program.set_steps(2);
  config.program.set_global_batch(world_size);
  config.program.set_seed(3);
  config.program.set_bucket_bytes(2 << 10);  // so that there are several
  return config;
}

// Two steps, of which the second has no gradient but zeros; in the first,
// `planter` has a NaN in its last bucket.
absl::Status TakeTwoSteps(Communicator& communicator, int planter) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingState> state,
                   TrainingState::Create(SmallJob(communicator.world_size())));
  Trace trace;
  AllReduceSync sync(/*generation=*/1, absl::Seconds(50), *state, communicator,
                     Clock::Real(), trace);
  const absl::Span<float> gradients = state->gradients().Elems<float>();
  const auto buckets = static_cast<int>(state->plan().buckets().size());
  EXPECT_GT(buckets, 1);
  for (const int64_t step : {1, 2}) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    if (step == 1 && communicator.rank() == planter)
      gradients[gradients.size() / 3] = std::nanf("");
    for (int bucket = 0; bucket < buckets; ++bucket) sync.BucketReady(bucket);
    LocalStep local;
    local.step = step;
    local.sample_count = 1;
    ASSIGN_OR_RETURN(const CommittedStep committed, sync.Commit(local));
    EXPECT_EQ(committed.summary.is_finite, step == 2);
    EXPECT_EQ(committed.non_finite_ranks,
              step == 1 ? std::vector<int>{planter} : std::vector<int>());
  }
  return absl::OkStatus();
}

TEST(AllReduceSyncTest, NamesTheRankWhoseGradientWasNotFinite) {
  for (const int world_size : {2, 3, 4}) {
    for (int planter = 0; planter < world_size; ++planter) {
      const auto world =
          WorldOfThreads::Create({.world_size = world_size}).value();
      const auto statuses =
          world->RunAll([planter](Communicator& communicator) {
            return TakeTwoSteps(communicator, planter);
          });
      for (const absl::Status& status : statuses)
        EXPECT_TRUE(status.ok()) << status;
    }
  }
}

}  // namespace
}  // namespace ringmaster
