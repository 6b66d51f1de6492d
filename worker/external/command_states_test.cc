#include "worker/external/command_states.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using command_state::kEnded;
using command_state::kFailed;
using command_state::kKilled;
using command_state::kLives;
using command_state::kNowhere;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CommandStatesTest, AViewHasThoseThatLiveAndSaysWhatBecameOfTheRest) {
  const View view = ViewOf(
      {kLives, kKilled + 9, kNowhere, kLives, kEnded, kFailed}, View(), 7);
  EXPECT_EQ(view.number, 7);
  EXPECT_THAT(view.ranks, ElementsAre(0, 3));
  EXPECT_EQ(view.why,
            "rank 1 was killed by signal 9 (Killed), the worker of rank 2 is "
            "lost, rank 4 has ended with exit code 0, rank 5 has failed");
}

TEST(CommandStatesTest, WhoWasLostBeforeIsNotToldOfAgain) {
  const View before = {3, {0, 1}, "rank 2 was killed"};
  EXPECT_EQ(ViewOf({kLives, kNowhere, kKilled + 9}, before, 4).why,
            "the worker of rank 1 is lost");
  EXPECT_THAT(ViewOf({kLives, kLives, kKilled + 9}, before, 4).why, IsEmpty());
}

}  // namespace
}  // namespace ringmaster
