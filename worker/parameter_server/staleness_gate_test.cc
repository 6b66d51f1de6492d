#include "worker/parameter_server/staleness_gate.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/plan/counter_random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(StalenessGateTest, AClockGoesOnWithTheLastBucketOfAStep) {
  StalenessGate gate(2, 3, 1, 10);
  EXPECT_TRUE(gate.Push(0, 2, 11).ok());
  EXPECT_TRUE(gate.Push(0, 0, 11).ok());
  EXPECT_EQ(gate.ClockOf(0), 10);
  EXPECT_TRUE(gate.Push(0, 1, 11).ok());
  EXPECT_EQ(gate.ClockOf(0), 11);
  EXPECT_EQ(gate.slowest(), 10);
}

TEST(StalenessGateTest, AnAnswerWaitsForTheSlowest) {
  StalenessGate gate(2, 1, 2, 0);
  EXPECT_TRUE(gate.MayAnswer(2));
  EXPECT_FALSE(gate.MayAnswer(3));
  EXPECT_TRUE(gate.Push(0, 0, 1).ok());
  EXPECT_FALSE(gate.MayAnswer(3));
  EXPECT_TRUE(gate.Push(1, 0, 1).ok());
  EXPECT_TRUE(gate.MayAnswer(3));
}

TEST(StalenessGateTest, WithoutABoundNobodyWaits) {
  const StalenessGate gate(2, 1, std::nullopt, 0);
  EXPECT_TRUE(gate.MayAnswer(1000));
}

TEST(StalenessGateTest, RefusesAWrongStepAndASecondPushNamingTheRank) {
  StalenessGate gate(3, 2, 1, 5);
  for (const int64_t step : {5, 7}) {
    const absl::Status status = gate.Push(2, 0, step);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 pushed step"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("step 6 comes next"));
  }
  EXPECT_TRUE(gate.Push(2, 0, 6).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(gate.Push(2, 0, 6)));
}

TEST(StalenessGateTest, WhoLeavesBlocksNobodyAndNothingGoesBack) {
  StalenessGate gate(2, 1, 1, 0);
  EXPECT_TRUE(gate.Push(0, 0, 1).ok());
  EXPECT_FALSE(gate.MayAnswer(2));
  gate.Leave(1);
  EXPECT_TRUE(gate.MayAnswer(2));
  EXPECT_EQ(gate.slowest(), 1);
  gate.Leave(0);
  EXPECT_EQ(gate.slowest(), 1);
}

TEST(StalenessGateTest, CountsHowFarAheadAnswersWere) {
  StalenessGate gate(2, 1, std::nullopt, 0);
  gate.NoteAnswer(0, 0);
  gate.NoteAnswer(0, 2);
  gate.NoteAnswer(0, 2);
  gate.NoteAnswer(0, 500);
  EXPECT_EQ(gate.staleness()[0], 1);
  EXPECT_EQ(gate.staleness()[2], 2);
  EXPECT_EQ(gate.staleness().back(), 1);
}

TEST(StalenessGateTest, NobodyIsAheadOfItselfInTheMiddleOfAStep) {
  StalenessGate gate(2, 3, 1, 0);
  // The other one has pushed this bucket too, and nothing else.
  for (const int worker : {0, 1}) {
    EXPECT_TRUE(gate.Push(worker, 2, 1).ok());
    gate.NoteAnswer(2, 1);
  }
  EXPECT_EQ(gate.staleness()[1], 1);
  EXPECT_EQ(gate.staleness()[0], 1);
  // Nobody waits for a worker that has left, and nobody is ahead of it.
  EXPECT_TRUE(gate.Push(0, 1, 1).ok());
  gate.Leave(1);
  gate.NoteAnswer(1, 1);
  EXPECT_EQ(gate.staleness()[0], 2);
}

// Random workers: each pushes all buckets of a step, in any order and with any
// delays, and begins the next step once all are answered; some leave.
class Workers {
 public:
  static constexpr int kBuckets = 3;
  static constexpr int64_t kSteps = 40;

  Workers(int count, int64_t staleness, uint64_t seed)
      : gate_(count, kBuckets, staleness, 0),
        staleness_(staleness),
        seed_(seed),
        workers_(static_cast<size_t>(count)) {
    for (Worker& worker : workers_) Shuffle(worker);
  }

  // Lets one worker act; returns false once none can.
  bool MoveOne() {
    std::vector<size_t> able;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].is_here && CanMove(workers_[i])) able.push_back(i);
    }
    if (able.empty()) return false;
    const size_t index = able[Random() % able.size()];
    Worker& worker = workers_[index];
    if (worker.pushed < kBuckets) {
      Push(static_cast<int>(index), worker);
    } else if (worker.step == kSteps || Random() % 200 == 0) {
      worker.is_here = false;
      gate_.Leave(static_cast<int>(index));
    } else {
      ++worker.step;
      worker.pushed = 0;
      Shuffle(worker);
      ExpectWithinBound(worker);
    }
    return true;
  }

  [[nodiscard]] bool all_left() const {
    return std::none_of(workers_.begin(), workers_.end(),
                        [](const Worker& worker) { return worker.is_here; });
  }

 private:
  struct Worker {
    int64_t step = 1;
    int pushed = 0;
    bool is_here = true;
    std::vector<int> order;
  };

  uint64_t Random() { return CounterRandom(seed_, drawn_++); }
  void Shuffle(Worker& worker) {
    worker.order.resize(kBuckets);
    std::iota(worker.order.begin(), worker.order.end(), 0);
    std::swap(worker.order[0], worker.order[Random() % kBuckets]);
    std::swap(worker.order[1], worker.order[1 + Random() % 2]);
  }
  [[nodiscard]] bool CanMove(const Worker& worker) const {
    return worker.pushed < kBuckets || gate_.MayAnswer(worker.step);
  }
  void Push(int rank, Worker& worker) {
    const int bucket = worker.order[static_cast<size_t>(worker.pushed++)];
    EXPECT_TRUE(gate_.Push(rank, bucket, worker.step).ok());
  }
  // A worker begins a step with the answers that it got.
  void ExpectWithinBound(const Worker& worker) {
    for (int bucket = 0; bucket < kBuckets; ++bucket)
      gate_.NoteAnswer(bucket, worker.step - 1);
    const StalenessCounts& ahead = gate_.staleness();
    EXPECT_TRUE(std::all_of(ahead.begin() + staleness_ + 1, ahead.end(),
                            [](int64_t count) { return count == 0; }));
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].is_here) continue;
      EXPECT_LE(worker.step - 1 - gate_.ClockOf(static_cast<int>(i)),
                staleness_);
    }
  }

  StalenessGate gate_;
  const int64_t staleness_;
  const uint64_t seed_;
  uint64_t drawn_ = 0;
  std::vector<Worker> workers_;
};

TEST(StalenessGateTest, NobodyIsEverFurtherAheadThanTheBoundNorStuck) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Workers workers(static_cast<int>(2 + seed % 4),
                    static_cast<int64_t>(1 + seed % 3), seed);
    while (workers.MoveOne()) {
    }
    EXPECT_TRUE(workers.all_left()) << seed;
  }
}

}  // namespace
}  // namespace ringmaster
