#include "worker/device/cuda/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "common/status/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)

// void RingmasterSwitchStack(void** leave, void* enter): what a callee must
// preserve goes onto the old stack and comes from the new one. The control words
// of the floating point unit stay as they are: kernels do not change them.
extern "C" void RingmasterSwitchStack(void** leave, void* enter);
asm(R"(
  .pushsection .text
  .hidden RingmasterSwitchStack
  .globl RingmasterSwitchStack
  .type RingmasterSwitchStack, @function
RingmasterSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size RingmasterSwitchStack, . - RingmasterSwitchStack
  .popsection
)");

#endif

namespace ringmaster::cuda_emulator {
namespace {

constexpr int kStackColours = 16;
constexpr size_t kColourBytes = 256;

#if defined(__SANITIZE_ADDRESS__)
void BeginSwitch(void** fake_stack, const void* bottom, size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
void EndSwitch(void* fake_stack, const void** bottom, size_t* size) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}
// A fiber ends in the middle of its functions, and AddressSanitizer would take
// the memory of their frames for these for ever, whatever lies there next.
void ForgetFrames(const void* bottom, size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(bottom, size);
}
#else
void BeginSwitch(void** /*fake_stack*/, const void* /*bottom*/,
                 size_t /*size*/) {}
void EndSwitch(void* /*fake_stack*/, const void** /*bottom*/,
               size_t* /*size*/) {}
void ForgetFrames(const void* /*bottom*/, size_t /*size*/) {}
#endif

#if defined(__SANITIZE_THREAD__)
void* NewRaceFiber() { return __tsan_create_fiber(0); }
void* CurrentRaceFiber() { return __tsan_get_current_fiber(); }
void SwitchRaceFiber(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
void FreeRaceFiber(void* fiber) { __tsan_destroy_fiber(fiber); }
#else
void* NewRaceFiber() { return nullptr; }
void* CurrentRaceFiber() { return nullptr; }
void SwitchRaceFiber(void* /*fiber*/) {}
void FreeRaceFiber(void* /*fiber*/) {}
#endif

}  // namespace

Fiber::Fiber(size_t stack_bytes, int index, void (*entry)()) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapping_bytes_ = stack_bytes + page;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RM_CHECK(mapping_ != MAP_FAILED, "no memory for the stacks of a block");
  RM_CHECK(mprotect(mapping_, page, PROT_NONE) == 0, "mprotect");
  thread_sanitizer_fiber_ = NewRaceFiber();
  stack_bottom_ = static_cast<char*>(mapping_) + page;
  stack_size_ = stack_bytes - (index % kStackColours) * kColourBytes;
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(
      reinterpret_cast<uintptr_t>(stack_bottom_) + stack_size_);
  *--top = nullptr;  // where `entry` would return to; aligns its frame
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the preserved registers
  stack_pointer_ = top;
#else
  RM_CHECK(getcontext(&context_) == 0, "getcontext");
  context_.uc_stack.ss_sp = const_cast<void*>(stack_bottom_);
  context_.uc_stack.ss_size = stack_size_;
  makecontext(&context_, entry, 0);
#endif
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
  ForgetFrames(stack_bottom_, stack_size_);
  FreeRaceFiber(thread_sanitizer_fiber_);
  munmap(mapping_, mapping_bytes_);
}

void Fiber::Switch(Fiber& from, Fiber& to) {
  if (from.mapping_ == nullptr) {
    from.thread_sanitizer_fiber_ = CurrentRaceFiber();
  }
  SwitchRaceFiber(to.thread_sanitizer_fiber_);
  BeginSwitch(&from.fake_stack_, to.stack_bottom_, to.stack_size_);
#if defined(__x86_64__)
  RingmasterSwitchStack(&from.stack_pointer_, to.stack_pointer_);
#else
  RM_CHECK(swapcontext(&from.context_, &to.context_) == 0, "swapcontext");
#endif
  EndSwitch(from.fake_stack_, nullptr, nullptr);
}

void Fiber::Entered(Fiber& from) {
  // Only here does one learn where the thread's own stack lies.
  if (from.mapping_ == nullptr) {
    EndSwitch(nullptr, &from.stack_bottom_, &from.stack_size_);
  } else {
    EndSwitch(nullptr, nullptr, nullptr);
  }
}

}  // namespace ringmaster::cuda_emulator
