#include "worker/train/exchange/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/status/exit_code.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr CommitExpectation kExpected = {
    .generation = 3, .step = 7, .global_batch = 5, .sample_hash = 30};

// Two ranks with 3 and 2 samples that agree on everything.
std::vector<CommitRecord> AgreeingRecords() {
  CommitRecord first;
  first.generation = 3;
  first.step = 7;
  first.loss_sum = 6;
  first.sample_count = 3;
  first.sample_hash = 10;
  first.norm_squared = 0.25;
  CommitRecord second = first;
  second.loss_sum = 4;
  second.sample_count = 2;
  second.sample_hash = 20;
  return {first, second};
}

TEST(CombineCommitsTest, AveragesTheLossOverTheGlobalBatch) {
  const absl::StatusOr<CommitSummary> summary =
      CombineCommits(AgreeingRecords(), kExpected);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_DOUBLE_EQ(summary->mean_loss, 2.0);
  EXPECT_DOUBLE_EQ(summary->norm_squared, 0.25);
  EXPECT_TRUE(summary->is_finite);
  EXPECT_FALSE(summary->stop);
  EXPECT_FALSE(summary->drain);
}

TEST(CombineCommitsTest, GrantsTheWishOfAnyRank) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].wants_stop = true;
  records[0].wants_drain = true;
  const absl::StatusOr<CommitSummary> summary =
      CombineCommits(records, kExpected);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_TRUE(summary->stop);
  EXPECT_TRUE(summary->drain);
}

TEST(CombineCommitsTest, StopsIfAllLeave) {
  std::vector<CommitRecord> records = AgreeingRecords();
  for (const bool other_leaves : {false, true}) {
    records[0].wants_leave = true;
    records[1].wants_leave = other_leaves;
    const absl::StatusOr<CommitSummary> summary =
        CombineCommits(records, kExpected);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->stop, other_leaves);
  }
}

TEST(CombineCommitsTest, SaysThatAGradientIsNotFinite) {
  for (const double norm : {std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<CommitRecord> records = AgreeingRecords();
    for (CommitRecord& record : records) record.norm_squared = norm;
    const absl::StatusOr<CommitSummary> summary =
        CombineCommits(records, kExpected);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_FALSE(summary->is_finite);
  }
}

void ExpectDiffers(const std::vector<CommitRecord>& records, const char* what) {
  const absl::StatusOr<CommitSummary> summary =
      CombineCommits(records, kExpected);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(ExitCodeOf(summary.status()), ExitCode::kPlanMismatch);
  EXPECT_THAT(std::string(summary.status().message()), HasSubstr(what));
}

TEST(CombineCommitsTest, RefusesRecordsOfAnotherStep) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].step = 8;
  ExpectDiffers(records, "ranks 0 and 1 commit different steps");
}

TEST(CombineCommitsTest, RefusesRecordsOfAnotherGeneration) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].generation = 2;
  ExpectDiffers(records, "ranks 0 and 1 commit different steps");
}

TEST(CombineCommitsTest, RefusesGradientsThatDifferInOneBit) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].norm_squared = std::nextafter(0.25, 1);
  ExpectDiffers(records, "ranks 0 and 1 hold different reduced gradients");
}

TEST(CombineCommitsTest, RefusesParametersThatDiffer) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].parameters_hash = 1;
  ExpectDiffers(records, "ranks 0 and 1 hold different parameters");
}

TEST(CombineCommitsTest, RefusesALedgerWithAWrongSample) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].sample_hash = 21;
  ExpectDiffers(records, "ledger");
}

TEST(CombineCommitsTest, RefusesALedgerWithAMissingSample) {
  std::vector<CommitRecord> records = AgreeingRecords();
  records[1].sample_count = 1;
  ExpectDiffers(records, "4 samples");
}

TEST(HashSampleIdTest, TellsSetsOfIdsApart) {
  EXPECT_NE(HashSampleId(1) + HashSampleId(4),
            HashSampleId(2) + HashSampleId(3));
  EXPECT_NE(HashSampleId(0), 0u);
}

}  // namespace
}  // namespace ringmaster
