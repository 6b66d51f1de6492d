#include "worker/bench/memory_needs.h"

#include <string>

#include "common/transport/shared_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBuffer = int64_t{256} << 20;

AllReduceBenchOptions Options(int ranks, Algorithm algorithm) {
  AllReduceBenchOptions options;
  options.ranks = ranks;
  options.algorithm = algorithm;
  options.sizes = {4096, kBuffer};
  options.copy_bytes = 1 << 20;
  return options;
}

int64_t BytesOf(int rank, int ranks, Algorithm algorithm) {
  return BenchBytesOf(rank, Options(ranks, algorithm), Topology::OneHost(ranks),
                      {}) -
         (ranks - 1) * static_cast<int64_t>(SegmentBytes(SharedSlots{}));
}

TEST(BenchBytesTest, CountWhatAnExchangeKeepsBesideTheBuffer) {
  EXPECT_EQ(BytesOf(0, 4, Algorithm::kExchange), 2 * kBuffer);
  EXPECT_EQ(BytesOf(0, 4, Algorithm::kRing), kBuffer);
}

TEST(BenchBytesTest, CountTheCopiesOfASmallBenchmark) {
  AllReduceBenchOptions options = Options(2, Algorithm::kRing);
  options.sizes = {4096};
  EXPECT_EQ(BenchBytesOf(0, options, Topology::OneHost(2), {}),
            (2 << 20) + static_cast<int64_t>(SegmentBytes(SharedSlots{})));
}

TEST(CheckBenchMemoryTest, IsOfAllRanksOfTheHost) {
  const AllReduceBenchOptions options = Options(4, Algorithm::kExchange);
  const auto check = [&](const Topology& topology, int64_t available) {
    return CheckBenchMemory(0, options, topology, {}, available);
  };
  EXPECT_TRUE(check(Topology::OneHost(4), 9 * kBuffer).ok());
  const absl::Status status = check(Topology::OneHost(4), 7 * kBuffer);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* flag : {"--sizes", "--ranks", "--algorithm"})
    EXPECT_THAT(std::string(status.message()), HasSubstr(flag));
  EXPECT_TRUE(check(Topology::OfHosts({1, 1, 1, 1}), 2 * kBuffer).ok());
  EXPECT_TRUE(check(Topology::OneHost(4), -1).ok());
}

}  // namespace
}  // namespace ringmaster
