#include "worker/nn/testing/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocation_count = 0;

}  // namespace

// The array and nothrow forms end up here as well; those for larger alignment
// do not, and nothing that tests count uses them.
void* operator new(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace ringmaster {

int64_t AllocationCount() { return allocation_count; }

}  // namespace ringmaster
