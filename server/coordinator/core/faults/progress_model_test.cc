#include "server/coordinator/core/faults/progress_model.h"

#include <gtest/gtest.h>

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kBudget = absl::Seconds(2);
constexpr absl::Duration kCap = absl::Seconds(60);

class ProgressModelTest : public ::testing::Test {
 protected:
  // `count` rounds of `phase` with one gap each, by one member after another.
  void Learn(v1::Phase phase, absl::Duration gap, int count,
             int world_size = 4) {
    for (int i = 0; i < count; ++i) {
      now_ += gap;
      model_.Observe(phase, gap, world_size, now_);
      model_.NoteRound(phase);
    }
  }
  absl::Duration Patience(v1::Phase phase, int world_size = 4) const {
    return model_.Patience(phase, world_size, kBudget, kCap);
  }

  ProgressModel model_;
  MonotonicTime now_;
};

TEST_F(ProgressModelTest, KnowsNothingAtFirst) {
  for (const v1::Phase phase :
       {v1::PHASE_PREPARE, v1::PHASE_CONNECT, v1::PHASE_STEP,
        v1::PHASE_EVALUATE, v1::PHASE_TRANSFER, v1::PHASE_CHECKPOINT,
        v1::PHASE_IDLE}) {
    EXPECT_EQ(model_.LongestGap(phase, 4), std::nullopt);
    EXPECT_EQ(Patience(phase), kCap);
  }
  EXPECT_EQ(model_.LeastPatience(4, kBudget, kCap), kCap);
}

TEST_F(ProgressModelTest, IsPatientForThreeGapsAndTheBudget) {
  Learn(v1::PHASE_STEP, absl::Seconds(1), 3);
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 4), absl::Seconds(1));
  EXPECT_EQ(Patience(v1::PHASE_STEP), absl::Seconds(5));
  EXPECT_EQ(Patience(v1::PHASE_CHECKPOINT), kCap);
  EXPECT_EQ(model_.LeastPatience(4, kBudget, kCap), absl::Seconds(5));
}

TEST_F(ProgressModelTest, GapsWithoutWholeRoundsSayNothing) {
  for (int i = 0; i < 100; ++i) {
    now_ += absl::Milliseconds(10);
    model_.Observe(v1::PHASE_STEP, absl::Milliseconds(10), 4, now_);
  }
  Learn(v1::PHASE_STEP, absl::Milliseconds(10), 2);
  EXPECT_EQ(Patience(v1::PHASE_STEP), kCap);
  Learn(v1::PHASE_STEP, absl::Seconds(3), 1);
  EXPECT_EQ(Patience(v1::PHASE_STEP), absl::Seconds(11));
}

TEST_F(ProgressModelTest, RoundsWithoutGapsSayNothing) {
  for (int i = 0; i < 5; ++i) model_.NoteRound(v1::PHASE_TRANSFER);
  EXPECT_EQ(Patience(v1::PHASE_TRANSFER), kCap);
}

TEST_F(ProgressModelTest, NeverExceedsTheCap) {
  Learn(v1::PHASE_STEP, absl::Seconds(30), 3);
  EXPECT_EQ(Patience(v1::PHASE_STEP), kCap);
}

TEST_F(ProgressModelTest, OutliersFadeWhileThePhaseGoesOn) {
  Learn(v1::PHASE_STEP, absl::Seconds(1), 3);
  Learn(v1::PHASE_STEP, absl::Seconds(16), 1);
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 4), absl::Seconds(16));
  Learn(v1::PHASE_STEP, absl::Seconds(1), 600);
  EXPECT_NEAR(absl::ToDoubleSeconds(*model_.LongestGap(v1::PHASE_STEP, 4)), 8.0,
              0.01);
  Learn(v1::PHASE_STEP, absl::Seconds(1), 3000);
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 4), absl::Seconds(1));
}

TEST_F(ProgressModelTest, OutliersStayWhileThePhaseIsNotEntered) {
  Learn(v1::PHASE_EVALUATE, absl::Seconds(10), 3);
  Learn(v1::PHASE_STEP, absl::Seconds(1), 10'000);
  EXPECT_EQ(model_.LongestGap(v1::PHASE_EVALUATE, 4), absl::Seconds(10));
  // An hour passed in between, but only a second of it in this phase.
  Learn(v1::PHASE_EVALUATE, absl::Seconds(1), 1);
  EXPECT_GT(*model_.LongestGap(v1::PHASE_EVALUATE, 4),
            absl::Milliseconds(9980));
}

TEST_F(ProgressModelTest, ManyMembersDoNotMakeItForgetFaster) {
  Learn(v1::PHASE_STEP, absl::Seconds(16), 3, 8);
  for (int step = 0; step < 600; ++step) {
    now_ += absl::Seconds(1);
    for (int rank = 0; rank < 8; ++rank) {
      model_.Observe(v1::PHASE_STEP, absl::Seconds(1), 8, now_);
    }
  }
  EXPECT_NEAR(absl::ToDoubleSeconds(*model_.LongestGap(v1::PHASE_STEP, 8)), 8.0,
              0.01);
}

TEST_F(ProgressModelTest, FewerRanksTakeLongerForSharedWork) {
  Learn(v1::PHASE_STEP, absl::Seconds(1), 3, 4);
  Learn(v1::PHASE_CHECKPOINT, absl::Seconds(1), 3, 4);
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 1), absl::Seconds(4));
  EXPECT_EQ(model_.LongestGap(v1::PHASE_CHECKPOINT, 1), absl::Seconds(1));
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 8), absl::Seconds(1));
  // It is the scaled value that fades.
  Learn(v1::PHASE_STEP, absl::Milliseconds(1), 1, 1);
  EXPECT_NEAR(absl::ToDoubleSeconds(*model_.LongestGap(v1::PHASE_STEP, 1)), 4.0,
              0.01);
}

TEST_F(ProgressModelTest, AWorldThatFlapsDoesNotDrawTheGapsOut) {
  for (int i = 0; i < 10; ++i) {
    Learn(v1::PHASE_STEP, absl::Seconds(1), 3, 4);
    Learn(v1::PHASE_STEP, absl::Seconds(2), 3, 2);
  }
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 4), absl::Seconds(2));
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 2), absl::Seconds(2));
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 1), absl::Seconds(4));
}

TEST_F(ProgressModelTest, WorkIsNotForgottenByWhatALargerWorldShows) {
  Learn(v1::PHASE_STEP, absl::Seconds(8), 3, 1);
  Learn(v1::PHASE_STEP, absl::Seconds(1), 3000, 8);
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 8), absl::Seconds(1));
  EXPECT_EQ(model_.LongestGap(v1::PHASE_STEP, 1), absl::Seconds(8));
}

TEST_F(ProgressModelTest, PhasesWithoutWorkAreIgnored) {
  Learn(v1::PHASE_IDLE, absl::Seconds(1), 5);
  Learn(v1::PHASE_HALTED, absl::Seconds(1), 5);
  Learn(v1::PHASE_UNSPECIFIED, absl::Seconds(1), 5);
  EXPECT_EQ(model_.LeastPatience(4, kBudget, kCap), kCap);
}

}  // namespace
}  // namespace ringmaster::coordinator
