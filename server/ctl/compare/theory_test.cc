#include "server/ctl/compare/theory.h"

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

constexpr double kBytes = 1000;

NodeBytes BytesOf(const char* mode, int workers, int ranks_per_host = 1) {
  const auto bytes =
      BytesOfStep(*ParseMode(mode), workers, ranks_per_host, kBytes);
  EXPECT_TRUE(bytes.has_value()) << mode;
  return bytes.value_or(NodeBytes());
}

TEST(TheoryTest, ARingsBytesStayBelowTwiceTheGradient) {
  EXPECT_DOUBLE_EQ(BytesOf("ring", 2).busiest, 1000);
  EXPECT_DOUBLE_EQ(BytesOf("ring", 4).busiest, 1500);
  EXPECT_LT(BytesOf("ring", 4096).busiest, 2000);
  EXPECT_DOUBLE_EQ(BytesOf("ring", 1).busiest, 0);
}

TEST(TheoryTest, AServersAndARootsBytesGrowWithTheWorkers) {
  EXPECT_DOUBLE_EQ(BytesOf("ps:1", 8).busiest, 8000);
  EXPECT_DOUBLE_EQ(BytesOf("ps:1", 8).worker, 1000);
  EXPECT_DOUBLE_EQ(BytesOf("ps:2", 8).busiest, 4000);
  EXPECT_DOUBLE_EQ(BytesOf("ps:16", 8).busiest, 1000) << "then a worker's";
  EXPECT_DOUBLE_EQ(BytesOf("ps:colocated", 4).busiest, 1500);
  EXPECT_DOUBLE_EQ(BytesOf("gather_broadcast", 8).busiest, 7000);
  EXPECT_DOUBLE_EQ(BytesOf("gather_broadcast", 8).worker, 1000);
}

TEST(TheoryTest, AHierarchySendsOnlyItsPartBetweenHosts) {
  // 2 * 1/2 inside a host of two, and a half of the ring of 4 hosts.
  EXPECT_DOUBLE_EQ(BytesOf("hierarchical", 8, 2).busiest, 1000 + 750);
  EXPECT_DOUBLE_EQ(BytesOf("hierarchical", 4, 1).busiest,
                   BytesOf("ring", 4).busiest);
}

TEST(TheoryTest, SaysNothingOfAChosenAlgorithm) {
  EXPECT_FALSE(BytesOfStep(*ParseMode("auto"), 4, 1, kBytes).has_value());
}

StepShape ShapeWith(int64_t buckets) {
  return {.compute_seconds = 3,
          .backward_seconds = 2,
          .wire_bytes = kBytes,
          .ready = EvenlyReady(buckets),
          .ranks_per_host = 1};
}

TEST(TheoryTest, ATransferHidesBehindTheBackwardPassButForItsLastBucket) {
  const Mode ring = *ParseMode("ring");
  // The ring of two sends 1000 bytes, in pieces of 250.
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, ShapeWith(4), {0, 1e-3}), 3 + 0.25);
  // The first is ready after half a second; then there is no pause.
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, ShapeWith(4), {0, 4e-3}), 3 + 4 - 1.5);
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, ShapeWith(1), {0, 1e-3}), 3 + 1);
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, ShapeWith(1), {0.5, 0}), 3 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 1, ShapeWith(1), {0.5, 1}), 3);
}

TEST(TheoryTest, BucketsThatAreReadyLateHideLess) {
  StepShape shape = ShapeWith(4);
  shape.ready = {0.7, 0.8, 0.9, 1};
  EXPECT_DOUBLE_EQ(*StepSeconds(*ParseMode("ring"), 2, shape, {0, 4e-3}),
                   3 + 4 - 0.6);
}

TEST(TheoryTest, AServersAnswersAreABucketBehindItsPushes) {
  StepShape shape = ShapeWith(4);
  shape.backward_seconds = 0;
  const Mode one = *ParseMode("ps:1");
  // Three push 1000 bytes each; the last bucket's answers go out after it.
  EXPECT_DOUBLE_EQ(*TransferSeconds(one, 3, shape, {0, 1e-3}), 3 + 0.75);
  EXPECT_DOUBLE_EQ(*TransferSeconds(one, 3, shape, {0, 1e-3, 1.5}), 1.5 * 3.75);
  // Two servers have two of the buckets each.
  EXPECT_DOUBLE_EQ(*TransferSeconds(*ParseMode("ps:2"), 3, shape, {0, 1e-3}),
                   1.5 + 0.75);
  shape.ready = {1};
  EXPECT_DOUBLE_EQ(*TransferSeconds(one, 3, shape, {0, 1e-3}), 3 + 3);
}

TEST(TheoryTest, ASecondServerBeginsWhenItsBucketsAreReady) {
  StepShape shape = ShapeWith(2);
  EXPECT_DOUBLE_EQ(*TransferSeconds(*ParseMode("ps:2"), 2, shape, {0, 1e-3}),
                   1 + 1 + 1);
}

TEST(TheoryTest, WorkersThatHoldShardsMoveWhatARingMoves) {
  StepShape shape = ShapeWith(100);
  shape.backward_seconds = 0;
  const Mode colocated = *ParseMode("ps:colocated");
  EXPECT_DOUBLE_EQ(*TransferSeconds(colocated, 4, shape, {0, 1e-3}), 1.5);
  shape.ready = {1};
  EXPECT_DOUBLE_EQ(*TransferSeconds(colocated, 4, shape, {0, 1e-3}), 6);
}

TEST(TheoryTest, CountsTheMessagesThatFollowOneAnother) {
  StepShape shape = ShapeWith(1);
  const auto messages = [&](const char* mode, int workers) {
    return *TransferSeconds(*ParseMode(mode), workers, shape, {1, 0});
  };
  EXPECT_DOUBLE_EQ(messages("ring", 8), 14);
  EXPECT_DOUBLE_EQ(messages("hierarchical", 8), 14) << "hosts of one";
  EXPECT_DOUBLE_EQ(messages("gather_broadcast", 8), 2);
  EXPECT_DOUBLE_EQ(messages("ps:1", 8), 2);
  EXPECT_DOUBLE_EQ(messages("ps:colocated", 8), 2);
  shape.ranks_per_host = 4;
  EXPECT_DOUBLE_EQ(messages("hierarchical", 8), 2 + 2);
}

}  // namespace
}  // namespace ringmaster::ctl
