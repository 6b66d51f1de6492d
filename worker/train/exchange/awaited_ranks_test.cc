#include "worker/train/exchange/awaited_ranks.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// A sync of three ranks that only reports waits.
class WaitingSync final : public ParameterSync {
 public:
  std::vector<absl::Duration> waited = std::vector<absl::Duration>(3);

  int peer_ranks() const override { return static_cast<int>(waited.size()); }
  absl::Duration WaitedFor(int rank) const override {
    return waited[static_cast<size_t>(rank)];
  }

  void BucketReady(int) override {}
  absl::StatusOr<CommittedStep> Commit(const LocalStep&) override {
    return absl::UnimplementedError("not here");
  }
  int64_t payload_sent_bytes() const override { return 0; }
  int64_t theory_bytes_per_step() const override { return 0; }
};

TEST(AwaitedRanksTest, NobodyIsAwaitedWhereNobodyWaits) {
  AwaitedRanks awaited;
  EXPECT_EQ(awaited.most().rank, -1);
  awaited.NoteStep(WaitingSync());
  EXPECT_EQ(awaited.most().rank, -1);
}

TEST(AwaitedRanksTest, ANewStragglerTakesThePlaceOfTheOld) {
  WaitingSync sync;
  AwaitedRanks awaited;
  for (int step = 0; step < 50; ++step) {
    sync.waited[0] += absl::Milliseconds(1);
    sync.waited[2] += absl::Milliseconds(4);
    awaited.NoteStep(sync);
  }
  EXPECT_EQ(awaited.most().rank, 2);
  EXPECT_EQ(awaited.most().per_step, absl::Milliseconds(4));
  // In all, rank 2 is still the one waited for most.
  for (int step = 0; step < 30; ++step) {
    sync.waited[0] += absl::Milliseconds(2);
    awaited.NoteStep(sync);
  }
  ASSERT_GT(sync.waited[2], sync.waited[0]);
  EXPECT_EQ(awaited.most().rank, 0);
}

}  // namespace
}  // namespace ringmaster
