#include "server/coordinator/page/page_trace.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Ranks that hold spans of these steps.
v1::GetTraceResponse TraceOf(const std::vector<std::vector<int64_t>>& ranks) {
  v1::GetTraceResponse trace;
  for (const std::vector<int64_t>& steps : ranks) {
    v1::RankTrace& rank = *trace.add_ranks();
    for (const int64_t step : steps) rank.add_spans()->set_step(step);
  }
  return trace;
}

std::set<int64_t> KeptOf(v1::GetTraceResponse trace) {
  KeepNewestStep(trace);
  std::set<int64_t> kept;
  for (const v1::RankTrace& rank : trace.ranks()) {
    for (const v1::TraceSpan& span : rank.spans()) kept.insert(span.step());
  }
  return kept;
}

TEST(KeepNewestStep, IsTheNewestThatAllHaveLeftBehind) {
  EXPECT_THAT(KeptOf(TraceOf({{3, 4, 4, 5, 6}, {4, 5, 5}})), ElementsAre(4));
  // A rank that has told nothing does not count.
  EXPECT_THAT(KeptOf(TraceOf({{3, 4}, {}})), ElementsAre(3));
}

TEST(KeepNewestStep, OfAJobInItsFirstStepIsThatOne) {
  EXPECT_THAT(KeptOf(TraceOf({{1, 1}, {1}})), ElementsAre(1));
  EXPECT_THAT(KeptOf(TraceOf({{}, {}})), IsEmpty());
}

TEST(ParseTraceQuery, TakesStepsAndRefusesOthers) {
  const auto request = ParseTraceQuery("a-1", "3", "");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->job(), "a-1");
  EXPECT_EQ(request->first_step(), 3);
  EXPECT_EQ(request->last_step(), 0);
  EXPECT_FALSE(ParseTraceQuery("a-1", "3x", "").ok());
  EXPECT_FALSE(ParseTraceQuery("a-1", "3", "2").ok());
}

}  // namespace
}  // namespace ringmaster::coordinator
