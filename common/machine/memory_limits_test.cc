#include "common/machine/memory_limits.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(MemoryLimitTest, IsKnownOnLinux) {
  EXPECT_GT(MemoryLimitBytes(), int64_t{1} << 20);
}

TEST(AvailableMemoryTest, IsAPartOfTheLimit) {
  EXPECT_GT(AvailableMemoryBytes(), int64_t{1} << 20);
  EXPECT_LE(AvailableMemoryBytes(), MemoryLimitBytes());
}

TEST(SwapTest, IsKnownOnLinux) { EXPECT_GE(SwapUsedBytes(), 0); }

}  // namespace
}  // namespace ringmaster
