#include "worker/bench/bench_buffer.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(BenchBufferTest, IsSharedIfItShouldBe) {
  const auto shared = BenchBuffer::Allocate(1 << 20, /*is_shared=*/true);
  ASSERT_TRUE(shared.ok()) << shared.status();
  ASSERT_NE((*shared)->arena(), nullptr);
  EXPECT_EQ((*shared)->arena()->at(), (*shared)->elements());
  const auto own = BenchBuffer::Allocate(1 << 20, /*is_shared=*/false);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ((*own)->arena(), nullptr);
  (*own)->elements()[(1 << 20) - 1] = std::byte{1};
}

TEST(BenchBufferTest, RefusesMoreThanThereIs) {
  for (const bool is_shared : {false, true}) {
    EXPECT_TRUE(absl::IsResourceExhausted(
        BenchBuffer::Allocate(int64_t{1} << 60, is_shared).status()));
  }
}

}  // namespace
}  // namespace ringmaster
