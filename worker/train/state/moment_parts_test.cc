#include "worker/train/state/moment_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

// Two buckets, of 128 and 64 elements.
Plan SmallPlan() {
  return Plan::Create("test",
                      {{"b", {100}, Initializer::Constant(0)},
                       {"a", {60}, Initializer::Constant(0)}},
                      {.bucket_bytes = 128 * 4})
      .value();
}

TEST(MomentPartsTest, ARankKeepsItsOwnPartAndThoseItMirrors) {
  const Topology topology = Topology::OneHost(4);
  EXPECT_THAT(PartsOf(0, 1, topology),
              ElementsAre(MomentPart{4, 0}, MomentPart{4, 3}));
  EXPECT_THAT(
      PartsOf(2, 2, topology),
      ElementsAre(MomentPart{4, 2}, MomentPart{4, 1}, MomentPart{4, 0}));
  EXPECT_THAT(PartsOf(1, 1, Topology::OfHosts({2, 2})),
              ElementsAre(MomentPart{4, 1}, MomentPart{4, 3}));
  EXPECT_THAT(PartsOf(0, 1, Topology::OneHost(1)), ElementsAre(MomentPart{}));
}

TEST(MomentPartsTest, APartIsAChunkOfEveryBucket) {
  const Plan plan = SmallPlan();
  ASSERT_EQ(plan.buckets().size(), 2u);
  EXPECT_THAT(RangesOf({MomentPart{}}, plan), ElementsAre(ElemRange{0, 192}));
  EXPECT_THAT(RangesOf({MomentPart{4, 1}}, plan),
              ElementsAre(ElemRange{32, 32}, ElemRange{144, 16}));
  EXPECT_THAT(RangesOf({MomentPart{4, 1}, MomentPart{4, 0}}, plan),
              ElementsAre(ElemRange{0, 64}, ElemRange{128, 32}));
  EXPECT_THAT(
      RangesOf({MomentPart{2, 0}, MomentPart{4, 1}, MomentPart{4, 3}}, plan),
      ElementsAre(ElemRange{0, 64}, ElemRange{96, 64}, ElemRange{176, 16}));
}

TEST(MomentPartsTest, RangesCombine) {
  const ElemRanges a = {{10, 10}, {30, 10}};
  EXPECT_THAT(
      Complement(a, 50),
      ElementsAre(ElemRange{0, 10}, ElemRange{20, 10}, ElemRange{40, 10}));
  EXPECT_THAT(Complement({}, 5), ElementsAre(ElemRange{0, 5}));
  EXPECT_THAT(Complement({{0, 5}}, 5), ElementsAre());
  EXPECT_THAT(Intersection(a, {{0, 15}, {18, 14}, {39, 9}}),
              ElementsAre(ElemRange{10, 5}, ElemRange{18, 2}, ElemRange{30, 2},
                          ElemRange{39, 1}));
}

TEST(MomentPartsTest, EachLackedElementIsSentOnce) {
  // Rank 1 keeps what it has, ranks 2 and 3 are new.
  EXPECT_THAT(PlanTransfers({{.held = {{0, 60}}, .wanted = {{0, 30}}},
                             {.held = {{50, 50}}, .wanted = {{60, 40}}},
                             {.held = {}, .wanted = {{20, 50}}},
                             {.held = {}, .wanted = {{90, 10}}}},
                            100),
              Optional(ElementsAre(Transfer{{20, 40}, 0}, Transfer{{60, 10}, 1},
                                   Transfer{{90, 10}, 1})));
}

TEST(MomentPartsTest, WhereAllHaveTheirsNothingIsSent) {
  EXPECT_THAT(PlanTransfers({{.held = {{0, 100}}, .wanted = {{0, 50}}},
                             {.held = {{0, 100}}, .wanted = {{50, 50}}}},
                            100),
              Optional(ElementsAre()));
}

TEST(MomentPartsTest, WhatNobodyHasIsLost) {
  const std::vector<Possession> ranks = {
      {.held = {{0, 60}}, .wanted = {{0, 50}}},
      {.held = {{61, 39}}, .wanted = {{50, 50}}}};
  EXPECT_EQ(PlanTransfers(ranks, 100), std::nullopt);
  EXPECT_EQ(PlanTransfers({{.held = {{0, 99}}}}, 100), std::nullopt);
  EXPECT_EQ(PlanTransfers({{.held = {{1, 99}}}}, 100), std::nullopt);
}

// Whichever ranks are lost, the parts are there iff no part and all of its
// mirrors are among them.
TEST(MomentPartsTest, PartsSurviveAnyRankThatHasAMirror) {
  const Plan plan = SmallPlan();
  const int n = 5;
  const Topology topology = Topology::OneHost(n);
  for (const int mirrors : {1, 2}) {
    for (int lost = 0; lost < (1 << n) - 1; ++lost) {
      std::vector<Possession> left;
      bool is_covered = true;
      for (int rank = 0; rank < n; ++rank) {
        bool has_copy = false;
        for (int distance = 0; distance <= mirrors; ++distance)
          has_copy |= (lost >> ((rank + distance) % n) & 1) == 0;
        is_covered &= has_copy;
        if ((lost >> rank & 1) != 0) continue;
        left.push_back(
            {.held = RangesOf(PartsOf(rank, mirrors, topology), plan)});
      }
      const Topology smaller = Topology::OneHost(static_cast<int>(left.size()));
      for (size_t rank = 0; rank < left.size(); ++rank) {
        left[rank].wanted =
            RangesOf(PartsOf(static_cast<int>(rank), mirrors, smaller), plan);
      }
      EXPECT_EQ(PlanTransfers(left, plan.total_elems()).has_value(), is_covered)
          << mirrors << " mirrors, lost " << lost;
    }
  }
}

}  // namespace
}  // namespace ringmaster
