#include "common/transport/shared_allocator.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(SharedAllocatorTest, GivesAlignedZeroesOfASegment) {
  SharedAllocator allocator("test");
  const auto memory = allocator.Allocate(100'000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % kAllocationAlignment,
            0u);
  const absl::Span<const char> bytes(static_cast<char*>(memory->data()),
                                     100'000);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), 100'000);
  const SharedSegment* const segment = allocator.SegmentOf(memory->data());
  ASSERT_NE(segment, nullptr);
  EXPECT_TRUE(segment->Contains(static_cast<std::byte*>(memory->data()),
                                static_cast<size_t>(memory->size_bytes())));
}

TEST(SharedAllocatorTest, ForgetsWhatIsGivenBack) {
  SharedAllocator allocator("test");
  auto first = allocator.Allocate(4096);
  auto second = allocator.Allocate(4096);
  ASSERT_TRUE(first.ok() && second.ok());
  void* const data = first->data();
  *first = Allocation();
  EXPECT_EQ(allocator.SegmentOf(data), nullptr);
  EXPECT_NE(allocator.SegmentOf(second->data()), nullptr);
}

TEST(SharedAllocatorTest, RefusesWhatIsNotToBeHad) {
  SharedAllocator allocator("test");
  EXPECT_EQ(allocator.Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator.Allocate(std::numeric_limits<int64_t>::max() / 2)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
  const auto nothing = allocator.Allocate(0);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->data(), nullptr);
}

}  // namespace
}  // namespace ringmaster
