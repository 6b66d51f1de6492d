#include "worker/nn/gemm_scratch.h"

#include <memory>
#include <new>

namespace ringmaster {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(void* memory) const { operator delete(memory, kAlignment); }
};

struct Scratch {
  std::unique_ptr<void, Free> memory;
  int64_t size_bytes = 0;
};

thread_local Scratch t_scratch;

}  // namespace

void* GemmScratch(int64_t size_bytes) {
  if (t_scratch.size_bytes < size_bytes) {
    // Not both at once.
    t_scratch = {};
    t_scratch.memory.reset(operator new(static_cast<size_t>(size_bytes),
                                        kAlignment));
    t_scratch.size_bytes = size_bytes;
  }
  return t_scratch.memory.get();
}

}  // namespace ringmaster
