#include "worker/torch/wait_watch.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

MonotonicTime At(int seconds) {
  return MonotonicTime() + absl::Seconds(1000 + seconds);
}

RankActivity Waiting(int rank, int64_t done) {
  return {.done = done, .awaited_rank = rank, .operation = "all_reduce"};
}

TEST(WaitWatchTest, TellsOfALongWaitAndOfItsEnd) {
  WaitWatch watch(1, absl::Seconds(30));
  EXPECT_EQ(watch.Look(Waiting(3, 7), At(0)), "");
  EXPECT_EQ(watch.Look(Waiting(3, 7), At(29)), "");
  EXPECT_EQ(watch.Look(Waiting(3, 7), At(31)),
            "rank 1 has waited 31 s for rank 3 in all_reduce");
  EXPECT_EQ(watch.Look(Waiting(3, 7), At(59)), "");
  EXPECT_NE(watch.Look(Waiting(3, 7), At(60)), "");
  EXPECT_EQ(watch.Look(Waiting(3, 7), At(119)), "");
  EXPECT_EQ(watch.Look(Waiting(2, 8), At(121)), "rank 1 goes on after 121 s");
  EXPECT_EQ(watch.Look(Waiting(2, 8), At(150)), "");
}

TEST(WaitWatchTest, SaysNothingOfARankThatWorks) {
  WaitWatch watch(0, absl::Seconds(30));
  for (int second = 0; second < 1000; ++second) {
    EXPECT_EQ(watch.Look(Waiting(1, second / 20), At(second)), "");
  }
  for (int second = 1000; second < 2000; ++second)
    EXPECT_EQ(watch.Look({}, At(second)), "");
}

TEST(WaitWatchTest, RanksThatAreLateInTurnMakeOneWait) {
  WaitWatch watch(0, absl::Seconds(30));
  EXPECT_EQ(watch.Look(Waiting(1, 4), At(0)), "");
  EXPECT_EQ(watch.Look(Waiting(2, 4), At(20)), "");
  EXPECT_EQ(watch.Look(Waiting(2, 4), At(30)),
            "rank 0 has waited 30 s for rank 2 in "
            "all_reduce");
}

}  // namespace
}  // namespace ringmaster
