#include "server/coordinator/rpc/newest_steps.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

// A rank that has one span of about `bytes` bytes of each step.
v1::RankTrace TraceOf(int rank, int64_t first, int64_t last, size_t bytes) {
  v1::RankTrace trace;
  trace.set_rank(rank);
  for (int64_t step = first; step <= last; ++step) {
    v1::TraceSpan& span = *trace.add_spans();
    span.set_step(step);
    span.set_name(std::string(bytes, 'f'));
  }
  return trace;
}

TEST(NewestStepsTest, KeepsAllThatFits) {
  NewestSteps newest(10000);
  newest.Add(TraceOf(1, 3, 4, 1000));
  newest.Add(TraceOf(0, 3, 4, 1000));
  const auto response = newest.Take();
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->first_fitting_step(), 0);
  ASSERT_EQ(response->ranks_size(), 2);
  EXPECT_EQ(response->ranks(0).rank(), 0);
  EXPECT_EQ(response->ranks(0).spans_size(), 2);
}

TEST(NewestStepsTest, OldStepsGiveWayOnAllRanksAlike) {
  NewestSteps newest(10000);
  for (int rank = 0; rank < 3; ++rank) newest.Add(TraceOf(rank, 1, 9, 1000));
  const auto response = newest.Take();
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->first_fitting_step(), 7);
  ASSERT_EQ(response->ranks_size(), 3);
  for (const v1::RankTrace& rank : response->ranks()) {
    ASSERT_EQ(rank.spans_size(), 3);
    EXPECT_EQ(rank.spans(0).step(), 7);
  }
  EXPECT_LE(response->ByteSizeLong(), 10000);
}

TEST(NewestStepsTest, OneStepThatDoesNotFitIsAnError) {
  NewestSteps newest(10000);
  newest.Add(TraceOf(0, 8, 9, 6000));
  newest.Add(TraceOf(1, 8, 9, 6000));
  newest.Add(TraceOf(2, 8, 9, 6000));
  const auto response = newest.Take();
  EXPECT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(response.status().message()),
              HasSubstr("the trace of one step takes"));
}

}  // namespace
}  // namespace ringmaster::coordinator
