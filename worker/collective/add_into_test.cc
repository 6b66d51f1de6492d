#include "worker/collective/add_into.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(AddIntoTest, AddsFloatsOfAnyLength) {
  for (const int64_t count : {0, 1, 7, 8, 1003}) {
    std::vector<float> into(count);
    std::vector<float> from(count);
    for (int64_t i = 0; i < count; ++i) {
      into[i] = 0.1f * static_cast<float>(i);
      from[i] = 7.0f / static_cast<float>(i + 1);
    }
    const std::vector<float> before = into;
    AddInto(DType::kFloat32, into.data(), from.data(), count);
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(into[i], before[i] + from[i]) << i;
  }
}

TEST(AddIntoTest, AddsIntegersAndWrapsAround) {
  std::vector<int64_t> into = {1, -5, std::numeric_limits<int64_t>::max()};
  const std::vector<int64_t> from = {int64_t{1} << 40, 5, 1};
  AddInto(DType::kInt64, into.data(), from.data(), 3);
  EXPECT_EQ(into, (std::vector<int64_t>{(int64_t{1} << 40) + 1, 0,
                                        std::numeric_limits<int64_t>::min()}));
}

TEST(AddIntoTest, CommutativeSumHasTheSameBitsInEitherOrder) {
  const float nan1 = std::bit_cast<float>(0x7fc00001u);
  const float nan2 = std::bit_cast<float>(0xffc00002u);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {nan1, inf,  0.1f, -0.0f, 1e-45f,
                                nan1, 3.0f, inf,  0.1f};
  const std::vector<float> b = {nan2, -inf, 0.2f, 0.0f, 1e-45f,
                                1.0f, nan2, 1.0f, 1e10f};
  std::vector<float> ab = a;
  std::vector<float> ba = b;
  AddIntoCommutative(DType::kFloat32, ab.data(), b.data(),
                     static_cast<int64_t>(a.size()));
  AddIntoCommutative(DType::kFloat32, ba.data(), a.data(),
                     static_cast<int64_t>(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(ab[i]), std::bit_cast<uint32_t>(ba[i]))
        << i;
  }
  EXPECT_EQ(ab[2], 0.1f + 0.2f);
}

TEST(AddIntoTest, TakesFloat32AndInt64Only) {
  EXPECT_TRUE(IsReducible(DType::kFloat32));
  EXPECT_TRUE(IsReducible(DType::kInt64));
  EXPECT_FALSE(IsReducible(DType::kFloat16));
  EXPECT_FALSE(IsReducible(DType::kUint8));
}

}  // namespace
}  // namespace ringmaster
