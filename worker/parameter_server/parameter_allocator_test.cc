#include "worker/parameter_server/parameter_allocator.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr int64_t kPage = 4096;

std::unique_ptr<ParameterAllocator> AllocatorOf(int64_t bytes) {
  absl::StatusOr<SharedSegment> segment =
      SharedSegment::Create("test", static_cast<size_t>(bytes));
  EXPECT_TRUE(segment.ok()) << segment.status();
  return std::make_unique<ParameterAllocator>(*std::move(segment));
}

TEST(ParameterAllocatorTest, AllLiesInOneSegmentAndIsZero) {
  const auto allocator = ParameterAllocator::Create();
  ASSERT_TRUE(allocator.ok()) << allocator.status();
  const auto first = (*allocator)->Allocate(1000);
  const auto second = (*allocator)->Allocate(3 * kPage);
  ASSERT_TRUE(first.ok() && second.ok());
  for (const Allocation* each : {&*first, &*second}) {
    const auto* const bytes = static_cast<const std::byte*>(each->data());
    EXPECT_TRUE((*allocator)
                    ->segment()
                    .Contains(bytes, static_cast<size_t>(each->size_bytes())));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % kPage, 0u);
    for (int64_t i = 0; i < each->size_bytes(); ++i)
      ASSERT_EQ(bytes[i], std::byte{0});
  }
  EXPECT_GE(static_cast<std::byte*>(second->data()) -
                static_cast<std::byte*>(first->data()),
            1000);
}

TEST(ParameterAllocatorTest, WhatIsGivenBackIsUsedAgainAsZeroes) {
  const auto allocator = AllocatorOf(2 * kPage);
  void* before = nullptr;
  {
    const auto first = allocator->Allocate(2 * kPage);
    ASSERT_TRUE(first.ok()) << first.status();
    before = first->data();
    std::memset(before, 7, 2 * kPage);
  }
  const auto again = allocator->Allocate(2 * kPage);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data(), before);
  EXPECT_EQ(*static_cast<const char*>(before), 0);
}

TEST(ParameterAllocatorTest, SaysWhatIsInUseWhenThereIsNoMore) {
  const auto allocator = AllocatorOf(2 * kPage);
  const auto first = allocator->Allocate(kPage + 1);
  ASSERT_TRUE(first.ok());
  const absl::Status status = allocator->Allocate(1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("8192 of 8192"), std::string::npos) << status;
  EXPECT_TRUE(absl::IsInvalidArgument(allocator->Allocate(-1).status()));
  EXPECT_EQ(allocator->Allocate(0)->data(), nullptr);
}

}  // namespace
}  // namespace ringmaster
