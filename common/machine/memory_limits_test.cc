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

}  // namespace
}  // namespace ringmaster
