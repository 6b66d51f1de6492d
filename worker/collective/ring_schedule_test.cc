#include "worker/collective/ring_schedule.h"

#include <map>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

std::vector<Segment> All(SegmentCursor cursor) {
  std::vector<Segment> segments;
  for (; !cursor.done(); cursor.Advance()) segments.push_back(cursor.current());
  return segments;
}

RingGeometry GeometryOf(CollectiveOp op, int rank, int world_size,
                        int64_t count) {
  RingGeometry geometry;
  geometry.op = op;
  geometry.rank = rank;
  geometry.world_size = world_size;
  geometry.count = count;
  geometry.segment_elems = 4;
  return geometry;
}

TEST(RingScheduleTest, ChunksOfThreeRanksAreAsInTheTable) {
  struct Row {
    int rank;
    std::vector<int> sent;
    std::vector<int> received;
  };
  const Row rows[] = {
      {0, {2, 1, 0, 2}, {1, 0, 2, 1}},
      {1, {0, 2, 1, 0}, {2, 1, 0, 2}},
      {2, {1, 0, 2, 1}, {0, 2, 1, 0}},
  };
  for (const Row& row : rows) {
    for (int step = 0; step < 4; ++step) {
      EXPECT_EQ(SentChunk(row.rank, 3, step), row.sent[step])
          << row.rank << " at " << step;
      EXPECT_EQ(ReceivedChunk(row.rank, 3, step), row.received[step])
          << row.rank << " at " << step;
    }
  }
}

class RingScheduleOfWorldTest : public ::testing::TestWithParam<int> {
 protected:
  const int n_ = GetParam();
};

TEST_P(RingScheduleOfWorldTest, WhatARankSendsIsWhatTheNextOneReceives) {
  for (int rank = 0; rank < n_; ++rank) {
    for (int step = 0; step < 2 * (n_ - 1); ++step) {
      EXPECT_EQ(SentChunk(rank, n_, step),
                ReceivedChunk((rank + 1) % n_, n_, step));
    }
  }
}

TEST_P(RingScheduleOfWorldTest, WhatARankSendsIsWhatItReceivedAStepBefore) {
  for (int rank = 0; rank < n_; ++rank) {
    for (int step = 1; step < 2 * (n_ - 1); ++step) {
      EXPECT_EQ(SentChunk(rank, n_, step), ReceivedChunk(rank, n_, step - 1));
    }
  }
}

// Plays the schedule with sets of contributions in place of numbers.
TEST_P(RingScheduleOfWorldTest, EveryRankEndsWithEveryContributionOnce) {
  // parts[rank][chunk]: how often each rank's contribution is in it.
  std::vector<std::vector<std::map<int, int>>> parts(
      n_, std::vector<std::map<int, int>>(n_));
  std::map<int, int> all;
  for (int rank = 0; rank < n_; ++rank) {
    all[rank] = 1;
    for (int chunk = 0; chunk < n_; ++chunk) parts[rank][chunk][rank] = 1;
  }
  for (int step = 0; step < 2 * (n_ - 1); ++step) {
    const auto before = parts;
    for (int rank = 0; rank < n_; ++rank) {
      const int chunk = ReceivedChunk(rank, n_, step);
      const auto& incoming = before[(rank + n_ - 1) % n_][chunk];
      if (step >= n_ - 1) parts[rank][chunk].clear();
      for (const auto& [contributor, times] : incoming)
        parts[rank][chunk][contributor] += times;
    }
    if (step != n_ - 2) continue;
    for (int rank = 0; rank < n_; ++rank)
      EXPECT_EQ(parts[rank][rank], all) << "after scatter";
  }
  for (int rank = 0; rank < n_; ++rank) {
    for (int chunk = 0; chunk < n_; ++chunk) EXPECT_EQ(parts[rank][chunk], all);
  }
}

TEST_P(RingScheduleOfWorldTest, CursorsOfNeighboursAgreeForEveryOpAndLength) {
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
        CollectiveOp::kAllGather, CollectiveOp::kBroadcast,
        CollectiveOp::kBarrier}) {
    for (const int64_t count : {0, 1, n_ - 1, 4 * n_, 61}) {
      for (int rank = 0; rank < n_; ++rank) {
        const int64_t length = op == CollectiveOp::kBarrier ? 0 : count;
        const auto sent =
            All(SegmentCursor::Sends(GeometryOf(op, rank, n_, length)));
        auto got = All(SegmentCursor::Receives(
            GeometryOf(op, (rank + 1) % n_, n_, length)));
        for (Segment& segment : got) segment.is_reduced = false;
        EXPECT_EQ(sent, got)
            << CollectiveOpName(op) << " of " << count << " at rank " << rank;
      }
    }
  }
}

TEST_P(RingScheduleOfWorldTest, LeadAndReceivesPayForAllSends) {
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
        CollectiveOp::kAllGather, CollectiveOp::kBroadcast,
        CollectiveOp::kBarrier}) {
    for (int rank = 0; rank < n_; ++rank) {
      const RingGeometry g =
          GeometryOf(op, rank, n_, op == CollectiveOp::kBarrier ? 0 : 61);
      const auto sends = All(SegmentCursor::Sends(g));
      const auto receives = All(SegmentCursor::Receives(g));
      EXPECT_GE(SendLead(g) + static_cast<int64_t>(receives.size()),
                static_cast<int64_t>(sends.size()));
      // Each send after the lead passes on exactly the segment that let it
      // begin.
      for (size_t k = SendLead(g); k < sends.size(); ++k) {
        EXPECT_EQ(sends[k].begin, receives[k - SendLead(g)].begin);
        EXPECT_EQ(sends[k].count, receives[k - SendLead(g)].count);
      }
    }
  }
}

TEST_P(RingScheduleOfWorldTest, AllReduceSendsTwiceAllChunksButOne) {
  constexpr int64_t kCount = 1003;
  int64_t total = 0;
  for (int rank = 0; rank < n_; ++rank) {
    for (const Segment& segment : All(SegmentCursor::Sends(
             GeometryOf(CollectiveOp::kAllReduce, rank, n_, kCount)))) {
      total += segment.count;
    }
  }
  EXPECT_EQ(total, 2 * (n_ - 1) * kCount);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RingScheduleOfWorldTest,
                         ::testing::Range(2, 9));

TEST(SegmentCursorTest, CutsChunksIntoSegments) {
  EXPECT_THAT(All(SegmentCursor::Receives(
                  GeometryOf(CollectiveOp::kAllReduce, 0, 2, 11))),
              ElementsAre(Segment{0, 4, 0, true}, Segment{4, 2, 0, true},
                          Segment{6, 4, 1, false}, Segment{10, 1, 1, false}));
}

TEST(SegmentCursorTest, AnEmptyChunkIsOneEmptyFrame) {
  EXPECT_THAT(
      All(SegmentCursor::Sends(GeometryOf(CollectiveOp::kAllGather, 1, 2, 1))),
      ElementsAre(Segment{1, 0, 1, false}));
}

TEST(SegmentCursorTest, AnExchangeIsOneWholeFrame) {
  RingGeometry geometry = GeometryOf(CollectiveOp::kAllReduce, 1, 2, 3);
  geometry.is_exchange = true;
  EXPECT_THAT(All(SegmentCursor::Sends(geometry)),
              ElementsAre(Segment{0, 3, 0, false}));
  EXPECT_THAT(All(SegmentCursor::Receives(geometry)),
              ElementsAre(Segment{0, 3, 0, true}));
}

TEST(SegmentCursorTest, AWorldOfOneDoesNothing) {
  EXPECT_TRUE(
      SegmentCursor::Sends(GeometryOf(CollectiveOp::kAllReduce, 0, 1, 9))
          .done());
  EXPECT_TRUE(
      SegmentCursor::Receives(GeometryOf(CollectiveOp::kBroadcast, 0, 1, 9))
          .done());
}

}  // namespace
}  // namespace ringmaster
