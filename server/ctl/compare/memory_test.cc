#include "server/ctl/compare/memory.h"

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

constexpr double kMiB = 1 << 20;

// `workers` workers with `samples` each, of which rank 0 needs 50 MiB more than
// 100 and 10 a sample, and a server of 500.
RunResult MadeRun(int64_t samples, int workers = 2) {
  RunResult run;
  run.mode = *ParseMode("ps:1");
  run.workers = workers;
  run.samples_at_once = samples;
  for (int rank = 0; rank <= workers; ++rank) {
    RankResult result;
    result.rank = rank;
    result.is_server = rank == workers;
    const double needed =
        result.is_server
            ? 500
            : 100 + 10 * static_cast<double>(samples) + (rank == 0 ? 50 : 0);
    result.peak_resident_bytes = needed * kMiB;
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
  EXPECT_DOUBLE_EQ(memory.ranks[0].bytes_per_sample, 10 * kMiB);
  EXPECT_DOUBLE_EQ(memory.ranks[0].fixed_bytes, 150 * kMiB);
  EXPECT_DOUBLE_EQ(memory.ranks[1].fixed_bytes, 100 * kMiB);
  EXPECT_TRUE(memory.ranks[2].is_server);
  EXPECT_DOUBLE_EQ(memory.ranks[2].bytes_per_sample, 0);
  EXPECT_DOUBLE_EQ(memory.ranks[2].fixed_bytes, 500 * kMiB);
}

TEST(MemoryTest, TheWorkerThatNeedsMostSetsTheLargestBatch) {
  const MemoryResult memory = MemoryFrom(MadeRun(4), MadeRun(16));
  EXPECT_EQ(LargestBatch(memory, 1159 * kMiB), 100);
  EXPECT_EQ(LargestBatch(memory, 1150 * kMiB), 100);
  EXPECT_EQ(LargestBatch(memory, 1149 * kMiB), 99);
  EXPECT_EQ(LargestBatch(memory, 499 * kMiB), 0) << "the server does not fit";
}

TEST(MemoryTest, SaysNothingOfABatchThatTakesNoMemory) {
  RunResult more = MadeRun(4);
  more.samples_at_once = 16;
  for (RankResult& rank : more.ranks)
    rank.peak_resident_bytes += kMemoryNoiseBytes - 1;
  MemoryResult memory = MemoryFrom(MadeRun(4), more);
  ASSERT_TRUE(memory.is_ok()) << memory.failure;
  EXPECT_DOUBLE_EQ(memory.ranks[0].bytes_per_sample, 0);
  EXPECT_DOUBLE_EQ(memory.ranks[0].fixed_bytes, 190 * kMiB);
  EXPECT_EQ(LargestBatch(memory, 1000 * kMiB), std::nullopt);
  EXPECT_EQ(LargestBatch(memory, 180 * kMiB), 0) << "rank 0 does not fit";
  for (RankResult& rank : more.ranks) rank.peak_resident_bytes += 1;
  memory = MemoryFrom(MadeRun(4), more);
  EXPECT_DOUBLE_EQ(memory.ranks[0].bytes_per_sample, kMemoryNoiseBytes / 12);
  for (RankResult& rank : more.ranks) rank.peak_resident_bytes = 90 * kMiB;
  EXPECT_EQ(LargestBatch(MemoryFrom(MadeRun(4), more), 1000 * kMiB),
            std::nullopt);
}

TEST(MemoryTest, SpreadsOverTheWorkersAlone) {
  const MemoryResult memory = MemoryFrom(MadeRun(4), MadeRun(16));
  const Spread spread = SpreadOf(memory, &RankMemory::peak_bytes);
  EXPECT_DOUBLE_EQ(spread.least, 140 * kMiB);
  EXPECT_DOUBLE_EQ(spread.most, 190 * kMiB);
  EXPECT_DOUBLE_EQ(spread.mean, 165 * kMiB);
  EXPECT_DOUBLE_EQ(SpreadOf({}, &RankMemory::peak_bytes).mean, 0);
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

}  // namespace
}  // namespace ringmaster::ctl
