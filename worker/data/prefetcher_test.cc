#include "worker/data/prefetcher.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock/testing/fake_clock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr int64_t kSamples = 50;
constexpr int64_t kGlobalBatch = 8;

// A data set whose sample i is token i and pixel i -> i, and that can be told
// to block or to fail.
class ControlledDataset final : public Dataset {
 public:
  int64_t size(Split /*split*/) const override { return kSamples; }
  const SampleShape& shape() const override { return shape_; }
  uint64_t fingerprint() const override { return 0; }

  absl::Status FillBatch(Split split, absl::Span<const int64_t> ids,
                         Batch& batch) const override {
    {
      MutexLock lock(mutex_);
      ++fills_;
      changed_.NotifyAll();
      while (is_blocked_) changed_.Wait(mutex_);
      if (!error_.ok()) return error_;
    }
    const absl::Status status = PrepareBatch(*this, split, ids, batch);
    for (size_t i = 0; i < ids.size(); ++i) {
      batch.mutable_inputs()[i] = static_cast<int32_t>(ids[i]);
      batch.mutable_targets()[i] = static_cast<int32_t>(ids[i]);
      batch.mutable_pixels()[i] = static_cast<uint8_t>(ids[i]);
    }
    return status;
  }

  void SetBlocked(bool is_blocked) {
    MutexLock lock(mutex_);
    is_blocked_ = is_blocked;
    changed_.NotifyAll();
  }
  void SetError(absl::Status error) {
    MutexLock lock(mutex_);
    error_ = std::move(error);
  }
  // Returns once FillBatch was called `count` times in all.
  void AwaitFills(int count) {
    MutexLock lock(mutex_);
    while (fills_ < count) changed_.Wait(mutex_);
  }
  int fills() const {
    MutexLock lock(mutex_);
    return fills_;
  }

 private:
  const SampleShape shape_ = {.tokens = 1, .pixels = 1, .targets = 1};
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable int fills_ GUARDED_BY(mutex_) = 0;
  bool is_blocked_ GUARDED_BY(mutex_) = false;
  absl::Status error_ GUARDED_BY(mutex_);
};

class PrefetcherTest : public ::testing::Test {
 protected:
  // A bound for tests that would otherwise hang; far above anything they need.
  static MonotonicTime Soon() {
    return Clock::Real().Now() + absl::Seconds(30);
  }

  std::vector<int64_t> Expected(int64_t step, int rank, int world_size) const {
    const ElemRange part = ChunkOf(rank, world_size, kGlobalBatch);
    std::vector<int64_t> ids(static_cast<size_t>(part.count));
    sampler_.SamplesOf(step, kGlobalBatch, part, absl::MakeSpan(ids));
    return ids;
  }

  static void ExpectBatch(const absl::StatusOr<const Batch*>& batch,
                          const std::vector<int64_t>& ids) {
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(std::vector<int64_t>((*batch)->sample_ids().begin(),
                                   (*batch)->sample_ids().end()),
              ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ((*batch)->inputs()[i], ids[i]);
      EXPECT_EQ((*batch)->targets()[i], ids[i]);
      EXPECT_EQ((*batch)->pixels()[i], ids[i]);
    }
  }

  ControlledDataset dataset_;
  PermutationSampler sampler_{7, kSamples};
  const Prefetcher::Options options_ = {.global_batch = kGlobalBatch,
                                        .max_local_batch = kGlobalBatch};
};

TEST_F(PrefetcherTest, GivesTheStepsInOrder) {
  Prefetcher prefetcher(dataset_, sampler_, options_, Clock::Real());
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  for (int64_t step = 1; step <= 100; ++step)
    ExpectBatch(prefetcher.Next(Soon()), Expected(step, 0, 1));
}

TEST_F(PrefetcherTest, StartsAnewForAnotherStepRankAndWorldSize) {
  Prefetcher prefetcher(dataset_, sampler_, options_, Clock::Real());
  for (int world_size : {1, 3, 8, 11}) {
    for (int rank = 0; rank < world_size; ++rank) {
      ASSERT_TRUE(prefetcher.Start(20, rank, world_size).ok());
      for (int64_t step = 20; step < 24; ++step) {
        ExpectBatch(prefetcher.Next(Soon()), Expected(step, rank, world_size));
      }
    }
  }
}

TEST_F(PrefetcherTest, StartDropsABatchThatIsBeingFilled) {
  Prefetcher prefetcher(dataset_, sampler_, options_, Clock::Real());
  dataset_.SetBlocked(true);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  dataset_.AwaitFills(1);
  ASSERT_TRUE(prefetcher.Start(5, 1, 2).ok());
  dataset_.SetBlocked(false);
  ExpectBatch(prefetcher.Next(Soon()), Expected(5, 1, 2));
}

TEST_F(PrefetcherTest, KeepsTheBatchInUseWhileItFillsTwoMoreAndNoThird) {
  Prefetcher prefetcher(dataset_, sampler_, options_, Clock::Real());
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  const absl::StatusOr<const Batch*> in_use = prefetcher.Next(Soon());
  dataset_.AwaitFills(1 + Prefetcher::kDepth);
  ExpectBatch(in_use, Expected(1, 0, 1));
  // The fourth fill begins only with the next Next.
  EXPECT_EQ(dataset_.fills(), 1 + Prefetcher::kDepth);
  ExpectBatch(prefetcher.Next(Soon()), Expected(2, 0, 1));
  dataset_.AwaitFills(2 + Prefetcher::kDepth);
}

TEST_F(PrefetcherTest, LateBatchIsDeadlineExceededAndComesOnTheNextCall) {
  FakeClock clock;
  Prefetcher prefetcher(dataset_, sampler_, options_, clock);
  dataset_.SetBlocked(true);
  ASSERT_TRUE(prefetcher.Start(3, 0, 1).ok());
  dataset_.AwaitFills(1);
  std::thread advance([&clock] {
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(10));
  });
  const absl::Status late =
      prefetcher.Next(clock.Now() + absl::Seconds(10)).status();
  advance.join();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(std::string(late.message()).find("step 3"), std::string::npos)
      << late;
  EXPECT_EQ(prefetcher.total_wait(), absl::Seconds(10));
  dataset_.SetBlocked(false);
  ExpectBatch(prefetcher.Next(clock.Now() + absl::Seconds(10)),
              Expected(3, 0, 1));
}

TEST_F(PrefetcherTest, BatchThatIsReadyCostsNoWaiting) {
  FakeClock clock;
  Prefetcher prefetcher(dataset_, sampler_, options_, clock);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  ExpectBatch(prefetcher.Next(clock.Now() + absl::Seconds(1)),
              Expected(1, 0, 1));
  EXPECT_EQ(prefetcher.total_wait(), absl::ZeroDuration());
}

TEST_F(PrefetcherTest, CancelEndsAWaitAndLastsUntilTheNextStart) {
  FakeClock clock;
  Prefetcher prefetcher(dataset_, sampler_, options_, clock);
  dataset_.SetBlocked(true);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  std::thread cancel([&] {
    clock.AwaitWaiters(1);
    prefetcher.Cancel();
  });
  EXPECT_EQ(prefetcher.Next(clock.Now() + absl::Seconds(1)).status().code(),
            absl::StatusCode::kAborted);
  cancel.join();
  dataset_.SetBlocked(false);
  EXPECT_EQ(prefetcher.Next(clock.Now() + absl::Seconds(1)).status().code(),
            absl::StatusCode::kAborted);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  ExpectBatch(prefetcher.Next(clock.Now() + absl::Seconds(1)),
              Expected(1, 0, 1));
}

TEST_F(PrefetcherTest, ErrorOfTheDataSetSurfacesAtNextUntilStartedAnew) {
  Prefetcher prefetcher(dataset_, sampler_, options_, Clock::Real());
  dataset_.SetError(absl::DataLossError("bad block"));
  ASSERT_TRUE(prefetcher.Start(4, 0, 1).ok());
  for (int attempt = 0; attempt < 2; ++attempt) {
    const absl::Status status = prefetcher.Next(Soon()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(status.message(), "batch of step 4: bad block");
  }
  dataset_.SetError(absl::OkStatus());
  ASSERT_TRUE(prefetcher.Start(4, 0, 1).ok());
  ExpectBatch(prefetcher.Next(Soon()), Expected(4, 0, 1));
}

TEST_F(PrefetcherTest, RefusesBadArgumentsAndNextBeforeStart) {
  Prefetcher prefetcher(dataset_, sampler_,
                        {.global_batch = kGlobalBatch, .max_local_batch = 4},
                        Clock::Real());
  EXPECT_EQ(prefetcher.Next(Soon()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(prefetcher.Start(0, 0, 2).code(), kInvalid);
  EXPECT_EQ(prefetcher.Start(1, 2, 2).code(), kInvalid);
  EXPECT_EQ(prefetcher.Start(1, -1, 2).code(), kInvalid);
  EXPECT_EQ(prefetcher.Start(1, 0, 0).code(), kInvalid);
  EXPECT_EQ(prefetcher.Start(1, 0, 1).code(),
            kInvalid);  // 8 samples into room for 4
  EXPECT_TRUE(prefetcher.Start(1, 0, 2).ok());
}

TEST_F(PrefetcherTest, StopsWhileItFillsAndWhileItIdles) {
  { Prefetcher idle(dataset_, sampler_, options_, Clock::Real()); }
  Prefetcher busy(dataset_, sampler_, options_, Clock::Real());
  ASSERT_TRUE(busy.Start(1, 0, 1).ok());
}

}  // namespace
}  // namespace ringmaster
