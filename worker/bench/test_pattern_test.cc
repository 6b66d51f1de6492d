#include "worker/bench/test_pattern.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/reduction/reduction_kernels.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr int64_t kCount = 10'000;  // more than two periods
constexpr DType kDTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                             DType::kBFloat16, DType::kInt32,   DType::kInt64};

std::vector<std::byte> Input(DType dtype, Reduction reduction, int ranks,
                             int rank) {
  std::vector<std::byte> input(static_cast<size_t>(kCount * SizeOf(dtype)));
  TestPattern(dtype, reduction, ranks, rank).Fill(input.data(), kCount);
  return input;
}

// The all-reduce of `ranks` inputs, one after another.
std::vector<std::byte> Reduce(DType dtype, Reduction reduction, int ranks) {
  const auto kernels = KernelsFor(dtype, dtype, reduction);
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  std::vector<std::byte> result = Input(dtype, reduction, ranks, 0);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<std::byte> other = Input(dtype, reduction, ranks, rank);
    kernels->combine(result.data(), other.data(), kCount);
  }
  if (kernels->finish != nullptr) kernels->finish(result.data(), kCount, ranks);
  return result;
}

TEST(TestPatternTest, KnowsTheResultInEveryDTypeToTheBit) {
  for (const DType dtype : kDTypes) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax,
                                      Reduction::kMin, Reduction::kAverage}) {
      const bool is_integer = dtype == DType::kInt32 || dtype == DType::kInt64;
      if (is_integer && reduction == Reduction::kAverage) continue;
      for (const int ranks : {2, 3, 7, TestPattern::kMaxRanks}) {
        const TestPattern pattern(dtype, reduction, ranks, 1);
        EXPECT_EQ(
            pattern.CountWrong(Reduce(dtype, reduction, ranks).data(), kCount),
            0)
            << DTypeName(dtype) << " " << ReductionName(reduction) << " "
            << ranks;
      }
    }
  }
}

TEST(TestPatternTest, CountsTheElementsThatAreWrong) {
  const TestPattern pattern(DType::kInt32, Reduction::kSum, 2, 0);
  std::vector<std::byte> result = Reduce(DType::kInt32, Reduction::kSum, 2);
  for (const size_t element : {size_t{0}, size_t{5000}, size_t{9999}})
    result[element * 4 + 1] ^= std::byte{1};
  EXPECT_EQ(pattern.CountWrong(result.data(), kCount), 3);
}

TEST(TestPatternTest, SeesARankThatIsAddedTwiceInPlaceOfAnother) {
  constexpr int kRanks = 8;
  const auto kernels =
      KernelsFor(DType::kFloat32, DType::kFloat32, Reduction::kSum);
  const TestPattern pattern(DType::kFloat32, Reduction::kSum, kRanks, 0);
  for (int missing = 0; missing < kRanks; ++missing) {
    for (int twice = 0; twice < kRanks; ++twice) {
      if (twice == missing) continue;
      std::vector<std::byte> sum(static_cast<size_t>(kCount) * sizeof(float));
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto input = Input(DType::kFloat32, Reduction::kSum, kRanks,
                                 rank == missing ? twice : rank);
        kernels->combine(sum.data(), input.data(), kCount);
      }
      EXPECT_GT(pattern.CountWrong(sum.data(), kCount), 0)
          << missing << " " << twice;
    }
  }
}

TEST(TestPatternTest, SeesWhatIsOutOfPlace) {
  const TestPattern pattern(DType::kFloat32, Reduction::kSum, 4, 0);
  std::vector<std::byte> result = Reduce(DType::kFloat32, Reduction::kSum, 4);
  std::rotate(result.begin(), result.begin() + 4, result.end());
  EXPECT_GT(pattern.CountWrong(result.data(), kCount), kCount / 2);
}

TEST(TestPatternTest, SeesWhatIsLeftOverFromTheCallBefore) {
  const TestPattern pattern(DType::kFloat32, Reduction::kSum, 4, 0);
  const std::vector<std::byte> result =
      Reduce(DType::kFloat32, Reduction::kSum, 4);
  for (const int64_t first : {1, 2, 4092}) {
    EXPECT_GT(pattern.CountWrong(result.data(), kCount, first), kCount / 2)
        << first;
  }
}

TEST(TestPatternTest, BeginsWhereItIsTold) {
  constexpr int64_t kFirst = 5000;
  const TestPattern pattern(DType::kInt64, Reduction::kSum, 1, 0);
  const std::vector<std::byte> whole =
      Input(DType::kInt64, Reduction::kSum, 1, 0);
  std::vector<std::byte> part((kCount - kFirst) * sizeof(int64_t));
  pattern.Fill(part.data(), kCount - kFirst, kFirst);
  EXPECT_TRUE(std::equal(part.begin(), part.end(),
                         whole.begin() + kFirst * sizeof(int64_t)));
  EXPECT_EQ(pattern.CountWrong(part.data(), kCount - kFirst, kFirst), 0);
}

}  // namespace
}  // namespace ringmaster
