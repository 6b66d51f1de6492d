#include "worker/train/awaited_ranks.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// Of three ranks, of which only WaitedFor is asked.
class WaitingCommunicator final : public Communicator {
 public:
  std::vector<absl::Duration> waited = std::vector<absl::Duration>(3);

  int rank() const override { return 1; }
  int world_size() const override { return static_cast<int>(waited.size()); }
  absl::Duration WaitedFor(int rank) const override {
    return waited[static_cast<size_t>(rank)];
  }

  absl::StatusOr<Ticket> Start(const CollectiveRequest&) override {
    return absl::UnimplementedError("not here");
  }
  absl::Status Wait(Ticket, MonotonicTime) override {
    return absl::UnimplementedError("not here");
  }
  void Abort(std::string_view) override {}
  Algorithm AlgorithmFor(const CollectiveRequest&) const override {
    return Algorithm::kRing;
  }
  CollectiveProgress progress() const override { return {}; }
  WireCounters counters() const override { return {}; }
  absl::Duration AllReduceTime() const override { return {}; }
  Transport TransportTo(int) const override { return Transport::kLoopback; }
};

TEST(AwaitedRanksTest, NobodyIsAwaitedWhereNobodyWaits) {
  AwaitedRanks awaited;
  EXPECT_EQ(awaited.most().rank, -1);
  awaited.NoteStep(WaitingCommunicator());
  EXPECT_EQ(awaited.most().rank, -1);
}

TEST(AwaitedRanksTest, ANewStragglerTakesThePlaceOfTheOld) {
  WaitingCommunicator communicator;
  AwaitedRanks awaited;
  for (int step = 0; step < 50; ++step) {
    communicator.waited[0] += absl::Milliseconds(1);
    communicator.waited[2] += absl::Milliseconds(4);
    awaited.NoteStep(communicator);
  }
  EXPECT_EQ(awaited.most().rank, 2);
  EXPECT_EQ(awaited.most().per_step, absl::Milliseconds(4));
  // In all, rank 2 is still the one waited for most.
  for (int step = 0; step < 30; ++step) {
    communicator.waited[0] += absl::Milliseconds(2);
    awaited.NoteStep(communicator);
  }
  ASSERT_GT(communicator.waited[2], communicator.waited[0]);
  EXPECT_EQ(awaited.most().rank, 0);
}

}  // namespace
}  // namespace ringmaster
