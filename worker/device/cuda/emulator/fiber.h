// Fiber is a stack of its own that a thread can run on and leave again, at the
// cost of a few loads and stores.
//
// A fiber stands for one thread of a kernel's block. swapcontext would do, but
// makes two system calls a switch.
// Thread-safety: a fiber belongs to the thread that created it.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_FIBER_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_FIBER_H_

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace ringmaster::cuda_emulator {

class Fiber {
 public:
  // A fiber for the thread's own stack, to switch back to.
  Fiber() = default;
  // A fiber with a stack of `stack_bytes` (a multiple of the page size), of
  // which only the used part takes memory; below it is a page that nothing may
  // touch. `index` shifts the top of the stack a little, since stacks that all
  // begin at the same offset would share a few sets of the CPU's cache. The
  // first switch to it calls `entry`, which must not return.
  Fiber(size_t stack_bytes, int index, void (*entry)());
  Fiber(const Fiber&) = delete;
  // Objects on the stack are dropped, not destroyed.
  ~Fiber();

  // Leaves `from`, which must be running, for `to`. Returns when something
  // switches to `from`.
  static void Switch(Fiber& from, Fiber& to);
  // `entry` calls it first, with the fiber that switched to it.
  static void Entered(Fiber& from);

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_ = {};
#endif
  // The stack with the page below; null for the thread's own stack.
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  // For the sanitizers, which have to know where the thread is.
  void* thread_sanitizer_fiber_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* stack_bottom_ = nullptr;
  size_t stack_size_ = 0;
};

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_FIBER_H_
