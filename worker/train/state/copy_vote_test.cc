#include "worker/train/state/copy_vote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CopiedState Holds(uint64_t hash) { return {hash, /*is_newcomer=*/false}; }
CopiedState Got(uint64_t hash) { return {hash, /*is_newcomer=*/true}; }

CopyVote Vote(const std::vector<CopiedState>& states, int source_rank = 0) {
  return VoteOnCopy(states, source_rank);
}

TEST(CopyVoteTest, EqualRanksAreRight) {
  const CopyVote vote = Vote({Holds(7), Got(7), Holds(7)});
  EXPECT_EQ(vote.hash, 7u);
  EXPECT_THAT(vote.odd_ranks, IsEmpty());
}

TEST(CopyVoteTest, TheMinorityIsOdd) {
  EXPECT_THAT(Vote({Holds(7), Holds(8), Holds(7)}).odd_ranks, ElementsAre(1));
  // Also if it is the source, and whatever its members hold.
  const CopyVote several =
      Vote({Holds(8), Holds(7), Holds(9), Holds(7), Holds(7)});
  EXPECT_EQ(several.hash, 7u);
  EXPECT_THAT(several.odd_ranks, ElementsAre(0, 2));
}

TEST(CopyVoteTest, WithoutAMajorityNobodyIs) {
  for (const std::vector<CopiedState>& states :
       {std::vector{Holds(7), Holds(8)},
        std::vector{Holds(7), Holds(8), Holds(7), Holds(8)},
        std::vector{Holds(7), Holds(7), Holds(8), Holds(9)},
        std::vector{Holds(7), Holds(8), Holds(9)}}) {
    const CopyVote vote = Vote(states);
    EXPECT_EQ(vote.hash, std::nullopt);
    EXPECT_THAT(vote.odd_ranks, IsEmpty());
  }
}

TEST(CopyVoteTest, ANewcomerHasNoVote) {
  // Two damaged copies do not outvote the only holder.
  const CopyVote damaged = Vote({Holds(7), Got(8), Got(8)});
  EXPECT_EQ(damaged.hash, 7u);
  EXPECT_THAT(damaged.odd_ranks, ElementsAre(1, 2));
  // What it got from one of two holders proves nothing.
  EXPECT_EQ(Vote({Holds(7), Holds(8), Got(7)}).hash, std::nullopt);
}

TEST(CopyVoteTest, ANewcomerIsNotToBlameForItsSource) {
  const CopyVote vote =
      Vote({Holds(7), Holds(8), Got(8), Holds(7), Got(9)}, /*source_rank=*/1);
  EXPECT_EQ(vote.hash, 7u);
  EXPECT_THAT(vote.odd_ranks, ElementsAre(1));
}

}  // namespace
}  // namespace ringmaster
