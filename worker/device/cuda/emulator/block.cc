#include "worker/device/cuda/emulator/block.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "worker/device/cuda/emulator/fiber.h"

namespace ringmaster::cuda_emulator {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxWarps = kMaxThreads / kWarpThreads;
// The size of a stack that holds a kernel's local arrays; AddressSanitizer's
// red zones take their part.
constexpr size_t kStackBytes = 256 << 10;
// The same as the device's.
constexpr size_t kSharedAlignment = 128;
constexpr int kNone = -1;

bool IsSamePlace(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() ||
          std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string PlaceText(const std::source_location& where) {
  return absl::StrCat(where.file_name(), ":", where.line(), " (",
                      where.function_name(), ")");
}

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "CUDA emulator: %s\n", message.c_str());
  std::abort();
}

struct Warp {
  uint32_t exists = 0;
  uint32_t runnable = 0;
  // The threads that have reached the warp's exchange, and the place of the
  // first.
  uint32_t arrived = 0;
  std::source_location place;
  // Two sets: a thread may reach the next exchange before others have read this
  // one's values, but not the one after that.
  int phase = 0;
  uint64_t values[2][kWarpThreads];
};

enum class Wait : uint8_t { kNotStarted, kBlock, kWarp, kDone };

struct Thread {
  Fiber* fiber = nullptr;  // that it waits on
  Wait wait = Wait::kNotStarted;
  std::source_location place;
};

// The blocks of one OS thread; keeps the stacks for the next grid.
class BlockRunner {
 public:
  void Run(const Grid& grid);
  int Barrier(bool predicate, const std::source_location& where);
  const uint64_t* WarpExchange(uint64_t value,
                               const std::source_location& where);
  int lane() const { return current_ % kWarpThreads; }
  void* shared() const { return shared_.get(); }
  std::string KernelText() const;

 private:
  void RunBlock();
  static void FiberMain();
  void RunThreads();
  int Next() const;
  void SwitchTo(int thread);
  void MakeCurrent(int thread);
  void Park(Wait wait, const std::source_location& where);
  Fiber* TakeFiber();
  void CheckPlace(const char* group, const std::source_location& first,
                  const std::source_location& where) const;
  [[noreturn]] void Hang() const;

  const Grid* grid_ = nullptr;
  int count_ = 0;  // of the block's threads
  std::unique_ptr<void, decltype(&std::free)> shared_{nullptr, &std::free};
  std::vector<uint3> indices_;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  int current_ = 0;
  int done_ = 0;
  int at_barrier_ = 0;
  std::source_location barrier_place_;
  int phase_ = 0;
  int predicates_[2] = {0, 0};

  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* running_ = nullptr;  // the fiber that the CPU is on
  Fiber* left_ = nullptr;     // the one before it
  bool is_running_ = false;
};

BlockRunner& Runner() {
  static thread_local BlockRunner runner;
  return runner;
}

std::string BlockRunner::KernelText() const {
  return absl::StrCat("the kernel launched at ", PlaceText(grid_->launched_at),
                      ", block (", blockIdx.x, ", ", blockIdx.y, ", ",
                      blockIdx.z, ") of ", count_, " threads");
}

void BlockRunner::Run(const Grid& grid) {
  RM_CHECK(!is_running_, "a kernel launched a kernel");
  is_running_ = true;
  grid_ = &grid;
  count_ = static_cast<int>(grid.block.x * grid.block.y * grid.block.z);
  RM_CHECK(count_ >= 1 && count_ <= kMaxThreads, "threads in a block");
  threads_.resize(count_);
  warps_.resize((count_ + kWarpThreads - 1) / kWarpThreads);
  indices_.clear();
  for (unsigned z = 0; z < grid.block.z; ++z) {
    for (unsigned y = 0; y < grid.block.y; ++y) {
      for (unsigned x = 0; x < grid.block.x; ++x) indices_.push_back({x, y, z});
    }
  }
  // Exactly as much as was asked for, so that AddressSanitizer sees its end.
  void* shared = nullptr;
  if (grid.shared_bytes > 0) {
    RM_CHECK(posix_memalign(&shared, kSharedAlignment, grid.shared_bytes) == 0,
             "no memory for dynamic shared memory");
  }
  shared_.reset(shared);
  blockDim = grid.block;
  gridDim = grid.grid;
  for (unsigned z = 0; z < grid.grid.z; ++z) {
    for (unsigned y = 0; y < grid.grid.y; ++y) {
      for (unsigned x = 0; x < grid.grid.x; ++x) {
        blockIdx = {x, y, z};
        RunBlock();
      }
    }
  }
  shared_.reset();
  is_running_ = false;
}

void BlockRunner::RunBlock() {
  if (shared_) std::memset(shared_.get(), 0xFF, grid_->shared_bytes);
  for (Thread& thread : threads_) thread = Thread();
  for (size_t w = 0; w < warps_.size(); ++w) {
    const int lanes = count_ - static_cast<int>(w) * kWarpThreads;
    Warp& warp = warps_[w];
    warp.exists = lanes >= kWarpThreads ? ~0u : (1u << lanes) - 1;
    warp.runnable = warp.exists;
    warp.arrived = 0;
  }
  done_ = at_barrier_ = 0;
  predicates_[phase_] = 0;
  MakeCurrent(0);
  left_ = &main_;
  running_ = TakeFiber();
  Fiber::Switch(main_, *running_);
  idle_.push_back(left_);
}

void BlockRunner::FiberMain() {
  BlockRunner& runner = Runner();
  Fiber::Entered(*runner.left_);
  runner.RunThreads();
}

// Runs the current thread from its start, then whichever can run; a fiber that
// has nothing to do waits here for the next thread that starts.
void BlockRunner::RunThreads() {
  for (;;) {
    grid_->thread();
    Thread& thread = threads_[current_];
    thread.wait = Wait::kDone;
    warps_[current_ / kWarpThreads].runnable &= ~(1u << lane());
    ++done_;
    const int next = Next();
    if (next == kNone && done_ != count_) Hang();
    if (next != kNone && threads_[next].wait == Wait::kNotStarted) {
      MakeCurrent(next);
      continue;
    }
    Fiber* self = running_;
    left_ = self;
    if (next == kNone) {
      Fiber::Switch(*self, main_);  // which puts it with the idle ones
    } else {
      idle_.push_back(self);
      SwitchTo(next);
    }
  }
}

// The thread after the current one in its warp, else another of the warp, else
// one of the next warp.
int BlockRunner::Next() const {
  const int warps = static_cast<int>(warps_.size());
  const int own = current_ / kWarpThreads;
  const uint32_t later = ~((2u << lane()) - 1) & warps_[own].runnable;
  if (later != 0) return own * kWarpThreads + std::countr_zero(later);
  for (int i = 0; i < warps; ++i) {
    const int w = own + i < warps ? own + i : own + i - warps;
    const uint32_t runnable = warps_[w].runnable;
    if (runnable != 0) return w * kWarpThreads + std::countr_zero(runnable);
  }
  return kNone;
}

void BlockRunner::MakeCurrent(int thread) {
  current_ = thread;
  threadIdx = indices_[thread];
}

// Switches from the running fiber to `thread`, which is runnable. Returns when
// something switches to this fiber; the current thread is then set.
void BlockRunner::SwitchTo(int thread) {
  MakeCurrent(thread);
  Fiber* from = running_;
  left_ = from;
  running_ = threads_[thread].wait == Wait::kNotStarted
                 ? TakeFiber()
                 : threads_[thread].fiber;
  Fiber::Switch(*from, *running_);
}

void BlockRunner::Park(Wait wait, const std::source_location& where) {
  Thread& thread = threads_[current_];
  thread.wait = wait;
  thread.place = where;
  thread.fiber = running_;
  warps_[current_ / kWarpThreads].runnable &= ~(1u << lane());
  const int next = Next();
  if (next == kNone) Hang();
  SwitchTo(next);
}

Fiber* BlockRunner::TakeFiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(
        kStackBytes, static_cast<int>(fibers_.size()), &FiberMain));
    return fibers_.back().get();
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

int BlockRunner::Barrier(bool predicate, const std::source_location& where) {
  if (at_barrier_ == 0) barrier_place_ = where;
  CheckPlace("block", barrier_place_, where);
  const int phase = phase_;
  predicates_[phase] += predicate ? 1 : 0;
  if (++at_barrier_ < count_) {
    Park(Wait::kBlock, where);
  } else {
    for (Warp& warp : warps_) warp.runnable = warp.exists;
    at_barrier_ = 0;
    phase_ = 1 - phase;
    predicates_[phase_] = 0;
  }
  return predicates_[phase];
}

const uint64_t* BlockRunner::WarpExchange(uint64_t value,
                                          const std::source_location& where) {
  Warp& warp = warps_[current_ / kWarpThreads];
  if (warp.arrived == 0) warp.place = where;
  CheckPlace("warp", warp.place, where);
  const int phase = warp.phase;
  warp.values[phase][lane()] = value;
  warp.arrived |= 1u << lane();
  if (warp.arrived != ~0u) {
    Park(Wait::kWarp, where);
  } else {
    warp.runnable = ~0u;
    warp.arrived = 0;
    warp.phase = 1 - phase;
  }
  return warp.values[phase];
}

void BlockRunner::CheckPlace(const char* group,
                             const std::source_location& first,
                             const std::source_location& where) const {
  if (IsSamePlace(first, where)) return;
  Fail(absl::StrCat("threads of one ", group,
                    " wait for each other in different places: thread ",
                    current_, " at ", PlaceText(where), ", others at ",
                    PlaceText(first), ", in ", KernelText()));
}

void BlockRunner::Hang() const {
  std::map<std::string, std::vector<int>> groups;
  for (int i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.wait == Wait::kDone) {
      groups["have ended"].push_back(i);
    } else {
      groups[absl::StrCat("wait for their ",
                          thread.wait == Wait::kBlock ? "block" : "warp",
                          " at ", PlaceText(thread.place))]
          .push_back(i);
    }
  }
  std::string message = absl::StrCat("a barrier is not reached by all: ");
  for (const auto& [what, threads] : groups) {
    absl::StrAppend(&message, threads.size(), " threads ", what, " (thread ",
                    threads.front(), threads.size() > 1 ? " is the first" : "",
                    "); ");
  }
  Fail(absl::StrCat(message, "in ", KernelText()));
}

}  // namespace

void RunGrid(const Grid& grid) { Runner().Run(grid); }

int Barrier(bool predicate, std::source_location where) {
  return Runner().Barrier(predicate, where);
}

const uint64_t* WarpExchange(uint64_t value, std::source_location where) {
  return Runner().WarpExchange(value, where);
}

int Lane() { return Runner().lane(); }

void* DynamicSharedMemory() { return Runner().shared(); }

void RefuseInKernel(const char* what, std::source_location where) {
  Fail(absl::StrCat(what, " at ", PlaceText(where), ", in ",
                    Runner().KernelText()));
}

}  // namespace ringmaster::cuda_emulator
