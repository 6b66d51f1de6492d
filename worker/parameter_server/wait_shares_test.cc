#include "worker/parameter_server/wait_shares.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

const MonotonicTime kBegin = MonotonicTime() + absl::Seconds(100);

TEST(WaitSharesTest, NobodyIsWaitedForAtFirst) {
  WaitShares shares;
  EXPECT_EQ(shares.most().rank, -1);
  shares.Note(kBegin, {absl::Seconds(50), absl::Seconds(7)});
  EXPECT_EQ(shares.most().rank, -1) << "that was before";
}

TEST(WaitSharesTest, NamesWhomMostTimeGoesTo) {
  WaitShares shares;
  absl::Duration waited[] = {absl::ZeroDuration(), absl::Seconds(5)};
  for (int second = 0; second < 100; ++second) {
    shares.Note(kBegin + absl::Seconds(second), waited);
    waited[0] += absl::Milliseconds(100);
    waited[1] += absl::Milliseconds(600);
  }
  EXPECT_EQ(shares.most().rank, 1);
  EXPECT_NEAR(shares.most().share, 0.6, 0.01);
}

TEST(WaitSharesTest, ForgetsWhatIsLongAgo) {
  WaitShares shares;
  shares.Note(kBegin, {absl::ZeroDuration(), absl::ZeroDuration()});
  shares.Note(kBegin + absl::Seconds(30),
              {absl::Seconds(30), absl::ZeroDuration()});
  EXPECT_EQ(shares.most().rank, 0);
  shares.Note(kBegin + absl::Seconds(60),
              {absl::Seconds(30), absl::Seconds(15)});
  EXPECT_EQ(shares.most().rank, 1);
}

TEST(WaitSharesTest, HowOftenItLooksDoesNotMatter) {
  WaitShares seldom;
  WaitShares often;
  for (int i = 0; i <= 1000; ++i) {
    const MonotonicTime now = kBegin + i * absl::Milliseconds(10);
    const absl::Duration waited[] = {i * absl::Milliseconds(4)};
    often.Note(now, waited);
    often.Note(now, waited);  // nothing has passed
    if (i % 500 == 0) seldom.Note(now, waited);
  }
  EXPECT_NEAR(seldom.most().share, often.most().share, 1e-9);
}

}  // namespace
}  // namespace ringmaster
