#include "worker/member/run_outcome.h"

#include "common/status/exit_code.h"
#include "common/transport/blamed_peer.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using Kind = RunOutcome::Kind;

TEST(FailedOutcomeTest, BlamesThePeerForWhatPeersCause) {
  const RunEndPlace place{
      .applied_step = 4, .complete_step = 5, .members = 3, .blamed_rank = 2};
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::DeadlineExceededError("x"),
        absl::AbortedError("x")}) {
    const RunOutcome outcome = FailedOutcome(status, place);
    EXPECT_EQ(outcome.kind, Kind::kPeerFailed) << status;
    EXPECT_EQ(outcome.peer_rank, 2);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.applied_step, 4);
    EXPECT_EQ(outcome.complete_step, 5);
  }
}

TEST(FailedOutcomeTest, TellsWhetherThePeerWasEverReached) {
  const RunEndPlace place{.members = 3, .blamed_rank = 2};
  EXPECT_FALSE(
      FailedOutcome(WithBlamedPeer(absl::UnavailableError("x"), 2), place)
          .is_unreached);
  EXPECT_TRUE(
      FailedOutcome(WithUnreachedPeer(absl::UnavailableError("x"), 2), place)
          .is_unreached);
}

TEST(FailedOutcomeTest, TellsWhetherThePeerHeldAnotherState) {
  const RunEndPlace place{.members = 3, .blamed_rank = 2};
  const absl::Status other = OtherStateError("x", 2);
  EXPECT_EQ(BlamedPeer(other), 2);
  EXPECT_EQ(FailedOutcome(other, place).kind, Kind::kPeerFailed);
  EXPECT_TRUE(FailedOutcome(other, place).holds_other_state);
  EXPECT_FALSE(
      FailedOutcome(absl::UnavailableError("x"), place).holds_other_state);
}

TEST(FailedOutcomeTest, IsOnesOwnWhereNobodyElseIs) {
  EXPECT_EQ(FailedOutcome(absl::UnavailableError("x"), {}).kind, Kind::kFailed);
  EXPECT_EQ(FailedOutcome(absl::InternalError("x"), {.members = 2}).kind,
            Kind::kFailed);
}

TEST(FailedOutcomeTest, AMismatchHasItsExitCode) {
  const RunOutcome outcome =
      FailedOutcome(absl::FailedPreconditionError("x"), {.members = 2});
  EXPECT_EQ(outcome.kind, Kind::kFailed);
  EXPECT_EQ(ExitCodeOf(outcome.status), ExitCode::kPlanMismatch);
}

TEST(FailedOutcomeTest, WhatWasAbortedWasInterrupted) {
  EXPECT_EQ(FailedOutcome(absl::UnavailableError("x"),
                          {.members = 2, .is_cancelled = true})
                .kind,
            Kind::kInterrupted);
}

TEST(RunOutcomeTest, AnEndWithoutAnErrorIsWhatAllAgreedOn) {
  EXPECT_EQ(KindOf(DoneKind::kFinished), RunOutcome::Kind::kFinished);
  EXPECT_EQ(KindOf(DoneKind::kStopped), RunOutcome::Kind::kStopped);
  EXPECT_EQ(KindOf(DoneKind::kDrained), RunOutcome::Kind::kDrained);
}

}  // namespace
}  // namespace ringmaster
