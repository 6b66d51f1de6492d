#include "common/tensor/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

// From this size on, page faults and TLB misses cost more than rounding up to
// huge pages.
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
// Larger requests can only be mistakes.
constexpr int64_t kMaxBytes = int64_t{1} << 40;

int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Allocation::Allocation(Allocation&& other) noexcept
    : allocator_(other.allocator_),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  allocator_ = other.allocator_;
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  return *this;
}

Allocation::~Allocation() { Release(); }

void Allocation::Release() {
  if (data_ != nullptr) allocator_->Deallocate(data_, size_bytes_);
  data_ = nullptr;
}

absl::StatusOr<Allocation> HeapAllocator::Allocate(int64_t size_bytes) {
  if (size_bytes < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot allocate ", size_bytes, " bytes"));
  if (size_bytes == 0) return Allocation();
  void* data = nullptr;
  if (size_bytes <= kMaxBytes) {
    const int64_t alignment =
        size_bytes >= kHugePageBytes ? kHugePageBytes : kAllocationAlignment;
    data = std::aligned_alloc(alignment, RoundUp(size_bytes, alignment));
  }
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "out of memory allocating ", size_bytes, " bytes on the heap"));
  }
  // Advice only: without huge pages the memory is as good, just slower, so a
  // refusal is not an error.
  if (size_bytes >= kHugePageBytes)
    madvise(data, RoundUp(size_bytes, kHugePageBytes), MADV_HUGEPAGE);
  std::memset(data, 0, size_bytes);
  return Allocation(this, data, size_bytes);
}

void HeapAllocator::Deallocate(void* data, int64_t /*size_bytes*/) {
  std::free(data);
}

absl::StatusOr<Allocation> PageAllocator::Allocate(int64_t size_bytes) {
  if (size_bytes < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot allocate ", size_bytes, " bytes"));
  if (size_bytes == 0) return Allocation();
  // Without a reservation: most of it may never become real.
  void* const data =
      size_bytes > kMaxBytes
          ? MAP_FAILED
          : mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory allocating ", size_bytes, " bytes"));
  }
  // A huge page would be real as a whole. Advice only.
  madvise(data, size_bytes, MADV_NOHUGEPAGE);
  return Allocation(this, data, size_bytes);
}

void PageAllocator::Release(void* data, int64_t size_bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end =
      (address + static_cast<uintptr_t>(size_bytes)) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void PageAllocator::Clear(void* data, int64_t size_bytes) {
  Release(data, size_bytes);
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  const int64_t fringe = std::min(size_bytes, page);
  auto* const bytes = static_cast<char*>(data);
  std::memset(bytes, 0, static_cast<size_t>(fringe));
  std::memset(bytes + size_bytes - fringe, 0, static_cast<size_t>(fringe));
}

void PageAllocator::Deallocate(void* data, int64_t size_bytes) {
  munmap(data, size_bytes);
}

}  // namespace ringmaster
