// Allocator provides the memory of an Arena: heap, shared memory, pinned host
// memory, a device.
//
// Guarantees: every allocation is aligned to kAllocationAlignment and filled
// with zeros.
// Thread-safety: implementations are thread-safe; an Allocation is
// thread-compatible.
// Ownership: an Allocation returns its memory when it dies, so its Allocator
// must outlive it.
// Example:
//   HeapAllocator allocator;
//   ASSIGN_OR_RETURN(Allocation memory, allocator.Allocate(bytes));
//   float* elems = static_cast<float*>(memory.data());
#ifndef RINGMASTER_COMMON_TENSOR_ALLOCATOR_H_
#define RINGMASTER_COMMON_TENSOR_ALLOCATOR_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace ringmaster {

// Enough for a cache line, an AVX-512 vector, and what CUDA's own allocator
// gives.
inline constexpr int64_t kAllocationAlignment = 256;

class Allocator;

// Memory that is given back on destruction. Move-only.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocator* allocator, void* data, int64_t size_bytes)
      : allocator_(allocator), data_(data), size_bytes_(size_bytes) {}
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();

  // Null only if size_bytes() is 0.
  void* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  void Release();

  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  // The kind of memory that this gives, for messages: "heap".
  virtual std::string_view name() const = 0;

  // Allocates `size_bytes` zeroed bytes; 0 bytes is an empty allocation.
  //   INVALID_ARGUMENT    size_bytes is negative
  //   RESOURCE_EXHAUSTED  there is not that much memory (the heap gives 1 TiB at
  //                       most)
  [[nodiscard]] virtual absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) = 0;

 private:
  friend class Allocation;
  // Takes back what Allocate gave; called once for each non-empty allocation.
  virtual void Deallocate(void* data, int64_t size_bytes) = 0;
};

// Ordinary process memory. Large allocations ask for huge pages.
class HeapAllocator final : public Allocator {
 public:
  std::string_view name() const override { return "heap"; }
  [[nodiscard]] absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) override;

 private:
  void Deallocate(void* data, int64_t size_bytes) override;
};

// Memory whose pages become real when they are first written to, and can be
// given back one by one: for an array of which a process holds a part.
class PageAllocator final : public Allocator {
 public:
  std::string_view name() const override { return "pages"; }
  [[nodiscard]] absl::StatusOr<Allocation> Allocate(
      int64_t size_bytes) override;

  // Gives back the pages that lie within `size_bytes` bytes of an allocation of
  // this kind: these are zeros then. Pages that lie there in part stay.
  static void Release(void* data, int64_t size_bytes);
  // The same, and what lies in pages that stay becomes zeros, too.
  static void Clear(void* data, int64_t size_bytes);

 private:
  void Deallocate(void* data, int64_t size_bytes) override;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_ALLOCATOR_H_
