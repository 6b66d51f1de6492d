// Every collective, world size, length and dtype against a plain reference.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/partition.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator.h"
#include "worker/collective/testing/ring_of_threads.h"

namespace ringmaster {
namespace {

// What rank `rank` holds at element `i` before collective number `salt`.
template <typename T>
T InputOf(int rank, int64_t i, int salt) {
  uint64_t bits =
      static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ull +
      static_cast<uint64_t>(rank * 131 + salt) * 0xBF58476D1CE4E5B9ull;
  bits ^= bits >> 29;
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(static_cast<int64_t>(bits >> 40) - (1 << 23)) /
           (1 << 20);
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
std::vector<T> Inputs(int rank, int64_t count, int salt) {
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = InputOf<T>(rank, i, salt);
  return values;
}

template <typename T>
bool IsSumOfRanks(T got, int world_size, int64_t i, int salt) {
  if constexpr (std::is_same_v<T, float>) {
    double sum = 0;
    double magnitude = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      sum += InputOf<T>(rank, i, salt);
      magnitude += std::fabs(InputOf<T>(rank, i, salt));
    }
    return std::fabs(got - sum) <= 1e-6 * magnitude;
  } else {
    uint64_t sum = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      sum += static_cast<uint64_t>(InputOf<T>(rank, i, salt));
    }
    return got == static_cast<T>(sum);
  }
}

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(50); }

using Param = std::tuple<int, RingOfThreads::Transport>;

class CollectiveResultsTest : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    RingOfThreads::Options options;
    options.world_size = n_;
    options.transport = std::get<1>(GetParam());
    auto ring = RingOfThreads::Create(options);
    ASSERT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
  }

  std::vector<int64_t> Lengths() const {
    return {0, 1, n_ - 1, 10007, (1 << 20) + 3};
  }

  // Runs `request_of(buffer)` on all ranks from fresh inputs; the buffers
  // afterwards.
  template <typename T, typename RequestOf>
  std::vector<std::vector<T>> RunOnAll(int64_t count, RequestOf request_of) {
    ++salt_;
    std::vector<std::vector<T>> buffers(n_);
    const auto statuses = ring_->RunAll([&](Communicator& communicator) {
      std::vector<T>& buffer = buffers[communicator.rank()];
      buffer = Inputs<T>(communicator.rank(), count, salt_);
      const CollectiveRequest request =
          request_of(BufferView::Of(std::span<T>(buffer)));
      // Alternates between the caller's thread and the communicator's own.
      if (salt_ % 2 == 0) return communicator.Run(request, Soon());
      const absl::StatusOr<Ticket> ticket = communicator.Start(request);
      return ticket.ok() ? communicator.Wait(*ticket, Soon()) : ticket.status();
    });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << status;
    return buffers;
  }

  template <typename T>
  void CheckAllReduce(int64_t count) {
    const auto buffers = RunOnAll<T>(count, AllReduceSum);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(IsSumOfRanks<T>(buffers[0][i], n_, i, salt_))
          << i << " of " << count;
    }
    if (count == 0) return;  // memcmp takes no null, not even for nothing
    for (int rank = 1; rank < n_; ++rank) {
      EXPECT_EQ(std::memcmp(buffers[0].data(), buffers[rank].data(),
                            count * sizeof(T)),
                0)
          << "ranks 0 and " << rank << " differ";
    }
  }

  template <typename T>
  void CheckReduceScatter(int64_t count) {
    const auto buffers = RunOnAll<T>(count, ReduceScatterSum);
    for (int rank = 0; rank < n_; ++rank) {
      const ElemRange chunk = ChunkOf(rank, n_, count);
      for (int64_t i = chunk.begin; i < chunk.end(); ++i) {
        ASSERT_TRUE(IsSumOfRanks<T>(buffers[rank][i], n_, i, salt_))
            << i << " at rank " << rank;
      }
    }
  }

  template <typename T>
  void CheckAllGather(int64_t count) {
    const auto buffers = RunOnAll<T>(count, AllGather);
    for (int rank = 0; rank < n_; ++rank) {
      for (int owner = 0; owner < n_; ++owner) {
        const ElemRange chunk = ChunkOf(owner, n_, count);
        for (int64_t i = chunk.begin; i < chunk.end(); ++i) {
          ASSERT_EQ(buffers[rank][i], InputOf<T>(owner, i, salt_))
              << i << " at rank " << rank;
        }
      }
    }
  }

  template <typename T>
  void CheckBroadcast(int64_t count) {
    for (const int root : {0, n_ - 1}) {
      const auto buffers = RunOnAll<T>(count, [root](const BufferView& buffer) {
        return Broadcast(buffer, root);
      });
      const std::vector<T> expected = Inputs<T>(root, count, salt_);
      for (int rank = 0; rank < n_; ++rank)
        EXPECT_EQ(buffers[rank], expected) << rank;
    }
  }

  const int n_ = std::get<0>(GetParam());
  int salt_ = 0;
  std::unique_ptr<RingOfThreads> ring_;
};

TEST_P(CollectiveResultsTest, AllReduceGivesTheSumBitwiseEqualOnAllRanks) {
  for (const int64_t count : Lengths()) {
    CheckAllReduce<float>(count);
    CheckAllReduce<int64_t>(count);
  }
}

TEST_P(CollectiveResultsTest, ReduceScatterGivesEachRankItsChunkOfTheSum) {
  for (const int64_t count : Lengths()) {
    CheckReduceScatter<float>(count);
    CheckReduceScatter<int64_t>(count);
  }
}

TEST_P(CollectiveResultsTest, AllGatherGivesEveryRankAllChunks) {
  for (const int64_t count : Lengths()) {
    CheckAllGather<float>(count);
    CheckAllGather<int64_t>(count);
  }
}

TEST_P(CollectiveResultsTest, BroadcastGivesEveryRankTheRootsBuffer) {
  for (const int64_t count : Lengths()) {
    CheckBroadcast<float>(count);
    CheckBroadcast<int64_t>(count);
  }
}

TEST_P(CollectiveResultsTest, AQueueOfMixedCollectivesKeepsItsOrder) {
  std::vector<std::vector<float>> sums(n_);
  const auto statuses =
      ring_->RunAll([&](Communicator& communicator) -> absl::Status {
        const int rank = communicator.rank();
        sums[rank].assign(1000, static_cast<float>(rank + 1));
        std::vector<int64_t> flags(5, rank);
        const auto sum =
            AllReduceSum(BufferView::Of(std::span<float>(sums[rank])));
        Ticket last;
        // The second all-reduce adds the results of the first, n times.
        for (const CollectiveRequest& request :
             {sum, Broadcast(BufferView::Of(std::span<int64_t>(flags)), 0),
              Barrier(), sum}) {
          const auto ticket = communicator.Start(request);
          if (!ticket.ok()) return ticket.status();
          last = *ticket;
        }
        return communicator.Wait(last, Soon());
      });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
  const float expected = static_cast<float>(n_ * n_ * (n_ + 1) / 2);
  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(sums[rank], std::vector<float>(1000, expected)) << rank;
    EXPECT_EQ(ring_->communicator(rank).progress().completed, 4);
  }
}

TEST_P(CollectiveResultsTest, PayloadIsExactAndFramingBelowHalfAPercent) {
  constexpr int64_t kCount = (1 << 18) + 1;  // 1 MiB and an element
  RunOnAll<float>(kCount, AllReduceSum);
  int64_t total = 0;
  for (int rank = 0; rank < n_; ++rank) {
    const WireCounters counters = ring_->communicator(rank).counters();
    total += counters.payload_sent_bytes;
    const double share = 2.0 * kCount * 4 * (n_ - 1) / n_;
    EXPECT_NEAR(counters.payload_sent_bytes, share, 8 * n_) << rank;
    EXPECT_NEAR(counters.payload_received_bytes, share, 8 * n_) << rank;
    EXPECT_LE(counters.framing_sent_bytes, 0.005 * share) << rank;
    EXPECT_EQ(counters.refused_frames, 0);
  }
  EXPECT_EQ(total, 2 * (n_ - 1) * kCount * 4);
}

INSTANTIATE_TEST_SUITE_P(
    Loopback, CollectiveResultsTest,
    ::testing::Combine(::testing::Values(1, 2, 3, 4, 7, 8),
                       ::testing::Values(RingOfThreads::Transport::kLoopback)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "Ranks");
    });

INSTANTIATE_TEST_SUITE_P(
    Tcp, CollectiveResultsTest,
    ::testing::Combine(::testing::Values(2, 4),
                       ::testing::Values(RingOfThreads::Transport::kTcp)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "Ranks");
    });

}  // namespace
}  // namespace ringmaster
