#include "server/ctl/compare/memory.h"

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

// `workers` workers with `samples` each, of which rank 0 needs 50 bytes more
// than 100 and 10 a sample, and a server of 500.
RunResult MadeRun(int64_t samples, int workers = 2) {
  RunResult run;
  run.mode = *ParseMode("ps:1");
  run.workers = workers;
  run.global_batch = samples * workers;
  for (int rank = 0; rank <= workers; ++rank) {
    RankResult result;
    result.rank = rank;
    result.is_server = rank == workers;
    result.peak_resident_bytes =
        result.is_server
            ? 500
            : 100 + 10 * static_cast<double>(samples) + (rank == 0 ? 50 : 0);
    run.ranks.push_back(result);
  }
  return run;
}

TEST(MemoryTest, TellsTheBatchApartFromTheRest) {
  const MemoryResult memory = MemoryFrom(MadeRun(4), MadeRun(16));
  ASSERT_TRUE(memory.is_ok()) << memory.failure;
  EXPECT_EQ(memory.few_samples, 4);
  EXPECT_EQ(memory.more_samples, 16);
  ASSERT_EQ(memory.ranks.size(), 3u);
  EXPECT_DOUBLE_EQ(memory.ranks[0].bytes_per_sample, 10);
  EXPECT_DOUBLE_EQ(memory.ranks[0].fixed_bytes, 150);
  EXPECT_DOUBLE_EQ(memory.ranks[1].fixed_bytes, 100);
  EXPECT_TRUE(memory.ranks[2].is_server);
  EXPECT_DOUBLE_EQ(memory.ranks[2].bytes_per_sample, 0);
  EXPECT_DOUBLE_EQ(memory.ranks[2].fixed_bytes, 500);
}

TEST(MemoryTest, TheWorkerThatNeedsMostSetsTheLargestBatch) {
  const MemoryResult memory = MemoryFrom(MadeRun(4), MadeRun(16));
  EXPECT_EQ(LargestBatch(memory, 1159), 100);
  EXPECT_EQ(LargestBatch(memory, 1150), 100);
  EXPECT_EQ(LargestBatch(memory, 1149), 99);
  EXPECT_EQ(LargestBatch(memory, 499), std::nullopt)
      << "the server does not fit";
}

TEST(MemoryTest, SaysNothingOfABatchThatTakesNoMemory) {
  RunResult more = MadeRun(16);
  for (RankResult& rank : more.ranks) rank.peak_resident_bytes = 90;
  const MemoryResult memory = MemoryFrom(MadeRun(4), more);
  EXPECT_DOUBLE_EQ(memory.ranks[0].bytes_per_sample, 0);
  EXPECT_EQ(LargestBatch(memory, 1e6), std::nullopt);
}

TEST(MemoryTest, FailsWithEitherRun) {
  RunResult failed = MadeRun(16);
  failed.failure = "too little memory";
  EXPECT_EQ(MemoryFrom(MadeRun(4), failed).failure, "too little memory");
  EXPECT_EQ(MemoryFrom(failed, MadeRun(4)).failure, "too little memory");
  EXPECT_EQ(MemoryFrom(MadeRun(4), MadeRun(16, 3)).failure,
            "its two runs cannot be compared");
  EXPECT_EQ(MemoryFrom(MadeRun(4), MadeRun(4)).failure,
            "its two runs cannot be compared");
}

TEST(MemoryTest, CountsTheSamplesOfAPiece) {
  RunResult run;
  run.workers = 3;
  run.global_batch = 100;
  EXPECT_EQ(SamplesAtOnce(run), 34);
  run.micro_batches = 4;
  EXPECT_EQ(SamplesAtOnce(run), 9);
}

}  // namespace
}  // namespace ringmaster::ctl
