// Every collective, algorithm, transport, world size, length, dtype and
// reduction against a plain reference.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/plan/partition.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator.h"
#include "worker/collective/schedule.h"
#include "worker/collective/testing/world_of_threads.h"

namespace ringmaster {
namespace {

// Returns the value of rank `rank` at element `i` before collective number
// `salt`.
template <typename T>
T InputOf(int rank, int64_t i, int salt) {
  uint64_t bits =
      static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ull +
      static_cast<uint64_t>(rank * 131 + salt) * 0xBF58476D1CE4E5B9ull;
  bits ^= bits >> 29;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<int64_t>(bits >> 40) - (1 << 23)) /
           (1 << 20);
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
std::vector<T> Inputs(int rank, int64_t count, int salt) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = InputOf<T>(rank, i, salt);
  return values;
}

// The parameters of an all-reduce, and its greatest error as a part of the sum
// of magnitudes.
struct Kind {
  Reduction reduction = Reduction::kSum;
  std::optional<DType> wire = std::nullopt;
  double tolerance = 1e-6;
};

template <typename T>
bool IsReduced(T got, const Kind& kind, int world_size, int64_t i, int salt) {
  T most = InputOf<T>(0, i, salt);
  T least = most;
  double sum = 0;
  double magnitude = 0;
  uint64_t wrapped = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    const T value = InputOf<T>(rank, i, salt);
    most = std::max(most, value);
    least = std::min(least, value);
    if constexpr (std::is_floating_point_v<T>) {
      sum += static_cast<double>(value);
      magnitude += std::fabs(static_cast<double>(value));
    } else {
      wrapped += static_cast<uint64_t>(value);
    }
  }
  if (kind.reduction == Reduction::kMax || kind.reduction == Reduction::kMin) {
    const T wanted = kind.reduction == Reduction::kMax ? most : least;
    if (!kind.wire.has_value()) return got == wanted;
    const auto exact = static_cast<double>(wanted);
    return std::fabs(static_cast<double>(got) - exact) <=
           kind.tolerance * std::fabs(exact);
  }
  if constexpr (std::is_floating_point_v<T>) {
    const double scale = kind.reduction == Reduction::kAverage ? world_size : 1;
    return std::fabs(static_cast<double>(got) - sum / scale) <=
           kind.tolerance * magnitude / scale;
  } else {
    return got == static_cast<T>(wrapped);
  }
}

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(50); }

template <typename T>
BufferView ViewOf(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), DTypeOf<T>()};
}

struct World {
  int size = 1;
  Transport transport = Transport::kLoopback;
  Algorithm algorithm = Algorithm::kAuto;
  std::vector<int> host_of_rank = {};
  int stripes = 1;
  bool is_in_place = false;  // buffers lie in memory that the peers read
};

// The arena of each rank, where is_in_place.
constexpr size_t kArenaBytes = 4 << 20;

std::string NameOf(const ::testing::TestParamInfo<World>& info) {
  std::string hosts;
  for (const int host : info.param.host_of_rank) absl::StrAppend(&hosts, host);
  return absl::StrCat(info.param.size, "_", TransportName(info.param.transport),
                      "_", AlgorithmName(info.param.algorithm),
                      hosts.empty() ? "" : "_on_", hosts,
                      info.param.stripes > 1 ? "_striped" : "",
                      info.param.is_in_place ? "_in_place" : "");
}

class CollectiveResultsTest : public ::testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    WorldOfThreads::Options options;
    options.world_size = n_;
    options.transport = GetParam().transport;
    options.algorithm = GetParam().algorithm;
    options.host_of_rank = GetParam().host_of_rank;
    options.stripes = GetParam().stripes;
    options.arena_bytes = GetParam().is_in_place ? kArenaBytes : 0;
    auto world = WorldOfThreads::Create(options);
    ASSERT_TRUE(world.ok()) << world.status();
    world_ = *std::move(world);
  }

  std::vector<int64_t> Lengths() const {
    return {0, 1, n_ - 1, 10007, (1 << 18) + 3};
  }

  // Runs `request_of(buffer)` on all ranks from fresh inputs; the buffers
  // afterwards. They are not aligned for vector instructions.
  template <typename T, typename RequestOf>
  std::vector<std::vector<T>> RunOnAll(int64_t count, RequestOf request_of) {
    ++salt_;
    std::vector<std::vector<T>> buffers(static_cast<size_t>(n_));
    const auto statuses = world_->RunAll([&](Communicator& communicator) {
      const int rank = communicator.rank();
      std::vector<T> own_memory;
      T* buffer = reinterpret_cast<T*>(world_->arena(rank)) + 1;
      if (world_->arena(rank) == nullptr) {
        own_memory.resize(static_cast<size_t>(count) + 1);
        buffer = own_memory.data() + 1;
      }
      const std::vector<T> inputs = Inputs<T>(rank, count, salt_);
      std::copy(inputs.begin(), inputs.end(), buffer);
      const CollectiveRequest request =
          request_of(BufferView{buffer, count, DTypeOf<T>()});
      // Alternates between the caller's thread and the communicator's own.
      absl::Status status;
      if (salt_ % 2 == 0) {
        status = communicator.Run(request, Soon());
      } else {
        const absl::StatusOr<Ticket> ticket = communicator.Start(request);
        status =
            ticket.ok() ? communicator.Wait(*ticket, Soon()) : ticket.status();
      }
      buffers[static_cast<size_t>(rank)].assign(buffer, buffer + count);
      return status;
    });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << status;
    return buffers;
  }

  template <typename T>
  void CheckAllReduce(int64_t count, const Kind& kind = {}) {
    const auto buffers = RunOnAll<T>(count, [&](const BufferView& buffer) {
      CollectiveRequest request = AllReduceSum(buffer);
      request.reduction = kind.reduction;
      request.wire = kind.wire;
      return request;
    });
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(
          IsReduced<T>(buffers[0][static_cast<size_t>(i)], kind, n_, i, salt_))
          << ReductionName(kind.reduction) << " of element " << i << " of "
          << count << ": " << buffers[0][static_cast<size_t>(i)];
    }
    if (count == 0) return;  // memcmp takes no null, not even for nothing
    for (size_t rank = 1; rank < buffers.size(); ++rank) {
      EXPECT_EQ(std::memcmp(buffers[0].data(), buffers[rank].data(),
                            static_cast<size_t>(count) * sizeof(T)),
                0)
          << "ranks 0 and " << rank << " differ";
    }
  }

  template <typename T>
  void CheckReduceScatter(int64_t count, int mirrors) {
    const auto buffers = RunOnAll<T>(count, [=](const BufferView& buffer) {
      return MirroredReduceScatterSum(buffer, mirrors);
    });
    const std::vector<int>& host_of_rank = GetParam().host_of_rank;
    std::vector<int> distances =
        MirrorDistances(mirrors, host_of_rank.empty() ? Topology::OneHost(n_)
                                                      : Topology(host_of_rank));
    distances.push_back(0);
    for (const int distance : distances) {
      for (int owner = 0; owner < n_; ++owner) {
        const int rank = (owner + distance) % n_;
        const ElemRange chunk = ChunkOf(owner, n_, count);
        for (int64_t i = chunk.begin; i < chunk.end(); ++i) {
          ASSERT_TRUE(IsReduced<T>(
              buffers[static_cast<size_t>(rank)][static_cast<size_t>(i)],
              Kind(), n_, i, salt_))
              << i << " at rank " << rank << " with " << mirrors << " mirrors";
        }
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
          ASSERT_EQ(buffers[static_cast<size_t>(rank)][static_cast<size_t>(i)],
                    InputOf<T>(owner, i, salt_))
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
      for (const auto& buffer : buffers) EXPECT_EQ(buffer, expected);
    }
  }

  // Reduces buffers, with a number that is not finite at `index` of those of
  // `planters`; returns the ranks that all ranks together name for it.
  std::set<int> NamedFor(const std::set<int>& planters, int64_t index,
                         int64_t count,
                         const CollectiveRequest& request = AllReduceSum({})) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float planted[] = {kInfinity, -kInfinity, std::nanf("")};
    ++salt_;
    const auto statuses = world_->RunAll([&](Communicator& communicator) {
      const int rank = communicator.rank();
      std::vector<float> buffer = Inputs<float>(rank, count, salt_);
      if (planters.contains(rank)) {
        buffer[static_cast<size_t>(index)] =
            planted[static_cast<size_t>(salt_) % std::size(planted)];
      }
      CollectiveRequest own = request;
      own.buffer = ViewOf(buffer);
      return communicator.Run(own, Soon());
    });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << status;
    return NamedForLast();
  }

  std::set<int> NamedForLast() {
    std::set<int> named;
    for (int observer = 0; observer < n_; ++observer) {
      const Communicator& communicator = world_->communicator(observer);
      for (int rank = 0; rank < n_; ++rank) {
        if (communicator.LastNonFinite(rank) ==
            communicator.progress().completed)
          named.insert(rank);
      }
    }
    return named;
  }

  std::set<int> AllRanks() const {
    std::set<int> ranks;
    for (int rank = 0; rank < n_; ++rank) ranks.insert(rank);
    return ranks;
  }

  const int n_ = GetParam().size;
  int salt_ = 0;
  std::unique_ptr<WorldOfThreads> world_;
};

TEST_P(CollectiveResultsTest, BytesTakeTheWayThatWasAskedFor) {
  for (int peer = 1; peer < n_; ++peer) {
    EXPECT_EQ(TransportName(world_->communicator(0).TransportTo(peer)),
              TransportName(GetParam().transport));
  }
}

TEST_P(CollectiveResultsTest, AllReduceGivesTheSumBitwiseEqualOnAllRanks) {
  for (const int64_t count : Lengths()) {
    CheckAllReduce<float>(count);
    CheckAllReduce<int64_t>(count);
  }
}

TEST_P(CollectiveResultsTest, AllReduceTakesEveryTypeAndReduction) {
  for (const int64_t count : {0, 1, 1009}) {
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      CheckAllReduce<float>(count, {reduction});
      CheckAllReduce<double>(count, {reduction});
      CheckAllReduce<int32_t>(count, {reduction});
      CheckAllReduce<int64_t>(count, {reduction});
    }
    CheckAllReduce<float>(count, {Reduction::kAverage});
    CheckAllReduce<double>(count, {Reduction::kAverage});
  }
}

// Each of up to n roundings to the wire costs half of its last bit.
TEST_P(CollectiveResultsTest, ASixteenBitWireCostsOnlyItsRoundings) {
  for (const int64_t count : {0, 1, 1009, 200'001}) {
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kMax, Reduction::kAverage}) {
      CheckAllReduce<float>(count, {reduction, DType::kBFloat16, n_ / 256.0});
      CheckAllReduce<float>(count, {reduction, DType::kFloat16, n_ / 2048.0});
    }
  }
}

// The place of the number, the rank that put it in, and the rank that sees it
// may be any.
TEST_P(CollectiveResultsTest, TheRanksKnowWhoPutInANumberThatIsNotFinite) {
  if (n_ == 1) GTEST_SKIP() << "nothing is combined";
  const int64_t count = 2 * n_ + 1;
  CollectiveRequest as_bfloat16 = AllReduceSum({});
  as_bfloat16.wire = DType::kBFloat16;
  for (int rank = 0; rank < n_; ++rank) {
    for (int64_t index = 0; index < count; ++index) {
      ASSERT_EQ(NamedFor({rank}, index, count), std::set<int>{rank}) << index;
    }
    ASSERT_EQ(NamedFor({rank}, 1, count, as_bfloat16), std::set<int>{rank});
    ASSERT_EQ(NamedFor({rank}, 1, count, ReduceScatterSum({})),
              std::set<int>{rank});
  }
}

TEST_P(CollectiveResultsTest, EverySegmentIsLookedAtForNumbersNotFinite) {
  if (n_ == 1) GTEST_SKIP() << "nothing is combined";
  constexpr int64_t kCount = (1 << 18) + 3;
  for (const int64_t index :
       {int64_t{0}, int64_t{1 << 16}, kCount / 2, kCount - 1}) {
    const int rank = static_cast<int>(index % n_);
    EXPECT_EQ(NamedFor({rank}, index, kCount), std::set<int>{rank});
  }
}

TEST_P(CollectiveResultsTest, AllWhoPutInANumberThatIsNotFiniteAreNamed) {
  if (n_ == 1) GTEST_SKIP() << "nothing is combined";
  EXPECT_EQ(NamedFor(AllRanks(), 3, 100), AllRanks());
  EXPECT_EQ(NamedFor({}, 0, 100), std::set<int>());
}

TEST_P(CollectiveResultsTest, NobodyIsNamedForASumThatIsTooLarge) {
  const auto statuses = world_->RunAll([&](Communicator& communicator) {
    std::vector<float> large(100, std::numeric_limits<float>::max());
    const absl::Status status =
        communicator.Run(AllReduceSum(ViewOf(large)), Soon());
    EXPECT_EQ(std::isinf(large[0]), n_ > 1);
    return status;
  });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(NamedForLast(), std::set<int>());
}

TEST_P(CollectiveResultsTest, ReduceScatterGivesEachRankItsChunkOfTheSum) {
  for (const int64_t count : Lengths()) {
    for (const int mirrors : {0, 1, 2}) {
      CheckReduceScatter<float>(count, mirrors);
      CheckReduceScatter<int64_t>(count, mirrors);
    }
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
  std::vector<std::vector<float>> sums(static_cast<size_t>(n_));
  const auto statuses =
      world_->RunAll([&](Communicator& communicator) -> absl::Status {
        const auto rank = static_cast<size_t>(communicator.rank());
        sums[rank].assign(1000, static_cast<float>(rank + 1));
        std::vector<int64_t> flags(5, communicator.rank());
        const auto sum = AllReduceSum(ViewOf(sums[rank]));
        Ticket last;
        // The second all-reduce adds the results of the first, n times.
        for (const CollectiveRequest& request :
             {sum, Broadcast(ViewOf(flags), 0), Barrier(), sum}) {
          const auto ticket = communicator.Start(request);
          if (!ticket.ok()) return ticket.status();
          last = *ticket;
        }
        return communicator.Wait(last, Soon());
      });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
  const auto expected = static_cast<float>(n_ * n_ * (n_ + 1) / 2);
  for (int rank = 0; rank < n_; ++rank) {
    EXPECT_EQ(sums[static_cast<size_t>(rank)],
              std::vector<float>(1000, expected))
        << rank;
    EXPECT_EQ(world_->communicator(rank).progress().completed, 4);
  }
}

bool IsBandwidthOptimal(const World& world) {
  return world.algorithm == Algorithm::kRing ||
         world.algorithm == Algorithm::kDirect ||
         (world.algorithm == Algorithm::kHalvingDoubling &&
          (world.size & (world.size - 1)) == 0);
}

using BandwidthOptimalTest = CollectiveResultsTest;

TEST_P(BandwidthOptimalTest, PayloadIsExactAndFramingBelowHalfAPercent) {
  constexpr int64_t kCount = (1 << 18) + 1;  // 1 MiB and an element
  RunOnAll<float>(kCount, AllReduceSum);
  int64_t total = 0;
  for (int rank = 0; rank < n_; ++rank) {
    const WireCounters counters = world_->communicator(rank).counters();
    total += counters.payload_sent_bytes;
    const double share = 2.0 * kCount * 4 * (n_ - 1) / n_;
    EXPECT_NEAR(counters.payload_sent_bytes, share, 8 * n_) << rank;
    EXPECT_NEAR(counters.payload_received_bytes, share, 8 * n_) << rank;
    EXPECT_LE(counters.framing_sent_bytes, 0.005 * share) << rank;
    EXPECT_EQ(counters.refused_frames, 0);
  }
  EXPECT_EQ(total, 2 * (n_ - 1) * kCount * 4);
}

// Worlds of these sizes run every algorithm. A sanitizer, which takes twenty
// times as long, learns nothing from the larger ones.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
const std::vector<int> kLoopbackSizes = {2, 3};
const std::vector<int> kInPlaceSizes = {3};
#else
const std::vector<int> kLoopbackSizes = {2, 3, 4, 5, 7, 8};
const std::vector<int> kInPlaceSizes = {2, 3, 4};
#endif

std::vector<World> AllWorlds() {
  std::vector<World> worlds = {{.size = 1}};
  for (const int size : kLoopbackSizes) {
    for (const Algorithm algorithm : kAlgorithms)
      worlds.push_back({size, Transport::kLoopback, algorithm});
  }
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1},
                                        {0, 0, 0, 1, 1},
                                        {0, 1, 0, 1, 2, 2},
                                        {0, 1, 2, 3}}) {
    worlds.push_back({static_cast<int>(hosts.size()), Transport::kLoopback,
                      Algorithm::kHierarchical, hosts});
  }
  for (const Transport transport :
       {Transport::kTcp, Transport::kUnix, Transport::kSharedMemory}) {
    for (const int size : {2, 4})
      worlds.push_back({size, transport, Algorithm::kAuto});
    worlds.push_back({3, transport, Algorithm::kRing});
    worlds.push_back({3, transport, Algorithm::kExchange});
  }
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    worlds.push_back({.size = 3,
                      .transport = Transport::kTcp,
                      .algorithm = algorithm,
                      .host_of_rank = {0, 1, 2},
                      .stripes = 3});
  }
  for (const Algorithm algorithm : kAlgorithms) {
    for (const int size : kInPlaceSizes) {
      worlds.push_back({.size = size,
                        .transport = Transport::kSharedMemory,
                        .algorithm = algorithm,
                        .is_in_place = true});
    }
  }
  return worlds;
}

std::vector<World> OptimalWorlds() {
  std::vector<World> worlds = AllWorlds();
  std::erase_if(worlds, [](const World& w) { return !IsBandwidthOptimal(w); });
  return worlds;
}

INSTANTIATE_TEST_SUITE_P(Worlds, BandwidthOptimalTest,
                         ::testing::ValuesIn(OptimalWorlds()), NameOf);

INSTANTIATE_TEST_SUITE_P(Worlds, CollectiveResultsTest,
                         ::testing::ValuesIn(AllWorlds()), NameOf);

}  // namespace
}  // namespace ringmaster
