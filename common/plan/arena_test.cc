#include "common/plan/arena.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "common/tensor/allocator.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(HeapAllocatorTest, GivesAlignedZeroedMemoryOfAnySize) {
  HeapAllocator allocator;
  for (int64_t size_bytes :
       {1, 255, 256, 4097, (2 << 20) - 1, 2 << 20, (4 << 20) + 3}) {
    absl::StatusOr<Allocation> memory = allocator.Allocate(size_bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->size_bytes(), size_bytes);
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(memory->data()) % kAllocationAlignment, 0);
    const auto* bytes = static_cast<const uint8_t*>(memory->data());
    for (int64_t i = 0; i < size_bytes; ++i)
      ASSERT_EQ(bytes[i], 0) << "byte " << i << " of " << size_bytes;
  }
}

TEST(HeapAllocatorTest, GivesAnEmptyAllocationForNoBytes) {
  HeapAllocator allocator;
  absl::StatusOr<Allocation> memory = allocator.Allocate(0);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->data(), nullptr);
}

TEST(HeapAllocatorTest, RefusesImpossibleSizes) {
  HeapAllocator allocator;
  EXPECT_EQ(allocator.Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      allocator.Allocate(std::numeric_limits<int64_t>::max()).status().code(),
      absl::StatusCode::kResourceExhausted);
}

TEST(PageAllocatorTest, PagesAreZeroAgainOnceTheyWereGivenBack) {
  constexpr int64_t kPages = 8;
  const int64_t page = sysconf(_SC_PAGESIZE);
  PageAllocator allocator;
  const Allocation memory = allocator.Allocate(kPages * page).value();
  auto* const bytes = static_cast<uint8_t*>(memory.data());
  EXPECT_EQ(std::count(bytes, bytes + kPages * page, 0), kPages * page);
  std::fill(bytes, bytes + kPages * page, 1);
  // From the middle of one to the middle of another: three whole pages.
  PageAllocator::Release(bytes + page / 2, 4 * page);
  EXPECT_EQ(std::count(bytes, bytes + kPages * page, 0), 3 * page);
  EXPECT_EQ(std::count(bytes + page, bytes + 4 * page, 0), 3 * page);
  PageAllocator::Release(bytes + 6 * page + 1, page);
  EXPECT_EQ(std::count(bytes, bytes + kPages * page, 0), 3 * page);
  PageAllocator::Clear(bytes, 3 * page / 2);
  EXPECT_EQ(std::count(bytes, bytes + kPages * page, 0), 4 * page);
  PageAllocator::Clear(bytes + 5 * page + 1, 3 * page - 1);
  EXPECT_EQ(std::count(bytes, bytes + kPages * page, 0), 7 * page - 1);
}

TEST(PageAllocatorTest, RefusesImpossibleSizes) {
  PageAllocator allocator;
  EXPECT_EQ(allocator.Allocate(0).value().data(), nullptr);
  EXPECT_EQ(allocator.Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      allocator.Allocate(std::numeric_limits<int64_t>::max()).status().code(),
      absl::StatusCode::kResourceExhausted);
}

// Counts what is out, to see that an Allocation comes back exactly once.
class CountingAllocator final : public Allocator {
 public:
  std::string_view name() const override { return "counting"; }
  absl::StatusOr<Allocation> Allocate(int64_t size_bytes) override {
    ++live;
    return Allocation(this, new char[size_bytes], size_bytes);
  }
  int live = 0;

 private:
  void Deallocate(void* data, int64_t /*size_bytes*/) override {
    --live;
    delete[] static_cast<char*>(data);
  }
};

TEST(AllocationTest, GivesItsMemoryBackOnceThroughMoves) {
  CountingAllocator allocator;
  {
    Allocation a = *allocator.Allocate(8);
    Allocation b = std::move(a);
    EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): that it
                                   // is empty is the contract
    EXPECT_EQ(allocator.live, 1);
    Allocation c = *allocator.Allocate(16);
    c = std::move(b);
    EXPECT_EQ(allocator.live, 1);
    EXPECT_EQ(c.size_bytes(), 8);
  }
  EXPECT_EQ(allocator.live, 0);
}

TEST(ArenaTest, SlicesMeanTheSameElementsAsTheWhole) {
  HeapAllocator allocator;
  absl::StatusOr<Arena> arena =
      Arena::Create(ArenaRole::kGradients, DType::kFloat32, 100, allocator);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->role(), ArenaRole::kGradients);
  EXPECT_EQ(arena->num_elems(), 100);
  EXPECT_EQ(arena->size_bytes(), 400);
  EXPECT_EQ(arena->bytes().size(), 400);
  arena->Slice<float>({40, 10})[3] = 7;
  EXPECT_EQ(arena->Elems<float>()[43], 7);
  EXPECT_TRUE(arena->Slice<float>({100, 0}).empty());
}

TEST(ArenaTest, MovesWithoutMovingItsElements) {
  HeapAllocator allocator;
  Arena arena =
      *Arena::Create(ArenaRole::kParameters, DType::kFloat64, 3, allocator);
  void* const data = arena.data();
  Arena moved = std::move(arena);
  EXPECT_EQ(moved.data(), data);
}

TEST(ArenaTest, NamesItsRoleWhenThereIsNoMemory) {
  HeapAllocator allocator;
  const absl::StatusOr<Arena> huge =
      Arena::Create(ArenaRole::kFirstMoment, DType::kUint8,
                    std::numeric_limits<int64_t>::max(), allocator);
  EXPECT_EQ(huge.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(huge.status().message()).find("arena first_moment"),
            std::string::npos)
      << huge.status();
  for (int64_t num_elems : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(
        Arena::Create(ArenaRole::kMaster, DType::kFloat32, num_elems, allocator)
            .status()
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(ArenaTest, EveryRoleHasItsOwnName) {
  EXPECT_EQ(ArenaRoleName(ArenaRole::kParameters), "parameters");
  EXPECT_EQ(ArenaRoleName(ArenaRole::kMaster), "master");
  EXPECT_EQ(ArenaRoleName(ArenaRole::kGradients), "gradients");
  EXPECT_EQ(ArenaRoleName(ArenaRole::kSecondMoment), "second_moment");
  EXPECT_EQ(ArenaRoleName(ArenaRole::kBuffers), "buffers");
}

}  // namespace
}  // namespace ringmaster
