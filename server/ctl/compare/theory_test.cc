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

TEST(TheoryTest, ATransferHidesBehindTheBackwardPassButForItsLastBucket) {
  StepShape shape = {.compute_seconds = 3,
                     .backward_seconds = 2,
                     .wire_bytes = kBytes,
                     .buckets = 4,
                     .ranks_per_host = 1};
  const Mode ring = *ParseMode("ring");
  // The ring of two sends 1000 bytes.
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, shape, {0, 1e-3}), 3 + 0.25);
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, shape, {0, 4e-3}), 3 + 4 - 1.5);
  shape.buckets = 1;
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, shape, {0, 1e-3}), 3 + 1);
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 2, shape, {0.5, 0}), 3 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(*StepSeconds(ring, 1, shape, {0.5, 1}), 3);
}

TEST(TheoryTest, ARootsTwoDirectionsFollowOneAnother) {
  const StepShape shape = {.compute_seconds = 0,
                           .backward_seconds = 0,
                           .wire_bytes = kBytes,
                           .buckets = 1,
                           .ranks_per_host = 1};
  EXPECT_DOUBLE_EQ(
      *TransferSeconds(*ParseMode("gather_broadcast"), 3, shape, {0, 1e-3}), 4);
  EXPECT_DOUBLE_EQ(*TransferSeconds(*ParseMode("ps:1"), 3, shape, {0, 1e-3}),
                   3);
}

TEST(TheoryTest, TakesTheLinkFromItsLimitOrFromTheFewestWorkers) {
  Comparison comparison;
  EXPECT_FALSE(LinkOf(comparison).has_value());
  RunResult run;
  run.mode = *ParseMode("ring");
  run.gradient_bytes = kBytes;
  run.workers = 4;
  run.all_reduce_seconds = 1;
  comparison.runs.push_back(run);
  run.workers = 2;
  run.wire_share = 0.5;
  run.all_reduce_seconds = 2;
  comparison.runs.push_back(run);
  EXPECT_DOUBLE_EQ(LinkOf(comparison)->seconds_per_byte, 2.0 / 500);
  comparison.conditions.link_bytes_per_second = 100;
  EXPECT_DOUBLE_EQ(LinkOf(comparison)->seconds_per_byte, 0.01);
}

TEST(TheoryTest, TakesTheShapeOfAStepFromARun) {
  RunResult run;
  run.compute_seconds = 2;
  run.other_seconds = 1;
  run.gradient_bytes = 1000;
  run.wire_share = 0.5;
  run.bucket_bytes = 300;
  const StepShape shape = ShapeOf(run);
  EXPECT_DOUBLE_EQ(shape.compute_seconds, 3);
  EXPECT_DOUBLE_EQ(shape.wire_bytes, 500);
  EXPECT_EQ(shape.buckets, 4);
  EXPECT_EQ(shape.ranks_per_host, 1);
}

}  // namespace
}  // namespace ringmaster::ctl
