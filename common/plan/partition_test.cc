#include "common/plan/partition.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ChunkOfTest, TilesEveryLengthInRankOrderWithSizesAtMostOneApart) {
  for (int world_size : {1, 2, 3, 4, 7, 8, 64}) {
    for (int64_t num_elems :
         {0, 1, world_size - 1, world_size, world_size + 1, 997, 1 << 20}) {
      int64_t next_begin = 0;
      int64_t smallest = num_elems;
      int64_t largest = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const ElemRange chunk = ChunkOf(rank, world_size, num_elems);
        EXPECT_EQ(chunk.begin, next_begin);
        next_begin = chunk.end();
        smallest = std::min(smallest, chunk.count);
        largest = std::max(largest, chunk.count);
      }
      EXPECT_EQ(next_begin, num_elems);
      EXPECT_LE(largest - smallest, 1);
    }
  }
}

TEST(ChunkOfTest, GivesTheExtraElementsToTheFirstRanks) {
  EXPECT_EQ(ChunkOf(0, 4, 10), (ElemRange{0, 3}));
  EXPECT_EQ(ChunkOf(1, 4, 10), (ElemRange{3, 3}));
  EXPECT_EQ(ChunkOf(2, 4, 10), (ElemRange{6, 2}));
  EXPECT_EQ(ChunkOf(3, 4, 10), (ElemRange{8, 2}));
  EXPECT_TRUE(ChunkOf(3, 4, 2).empty());
}

TEST(PartOfBatchTest, RanksHaveWholeGroupsThatTileTheBatch) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    int64_t end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const ElemRange part = PartOfBatch(rank, ranks, 24, 4);
      EXPECT_EQ(part.begin, end);
      EXPECT_EQ(part.count % 4, 0);
      end = part.end();
    }
    EXPECT_EQ(end, 24);
  }
  EXPECT_EQ(PartOfBatch(1, 4, 10, 1), ChunkOf(1, 4, 10));
}

}  // namespace
}  // namespace ringmaster
