#include "common/sync/thread_pool.h"

#include <algorithm>
#include <limits>

#include "common/status/check.h"

namespace ringmaster {
namespace {

// A pause instruction takes about 50 ns on current x86 servers, and less
// elsewhere.
constexpr int kSpinRounds = 512;
constexpr int kLoopShift = 32;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Waits until `word` is no longer `old`: a bounded spin, then asleep.
void AwaitChange(const std::atomic<uint32_t>& word, uint32_t old,
                 int spin_rounds) {
  for (int round = 0; round < spin_rounds; ++round) {
    if (word.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  word.wait(old);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  RM_CHECK(threads >= 1, "a pool has at least its caller");
  // With more threads than processors, a spinning one is in the way of one that
  // works. (How many there are is read from a file, which a pool of its caller
  // alone, made for one loop, would notice.)
  if (threads > 1 &&
      static_cast<unsigned>(threads) <= std::thread::hardware_concurrency())
    spin_rounds_ = kSpinRounds;
  threads_.reserve(static_cast<size_t>(threads) - 1);
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ThreadPool::~ThreadPool() {
  is_stopping_.store(true);
  loop_.fetch_add(1);
  loop_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(int64_t count, int64_t grain, Block block) {
  RM_CHECK(count >= 0 && grain >= 1, "a loop needs a count and a grain");
  RM_CHECK(!is_in_loop_.exchange(true, std::memory_order_acquire),
           "one loop at a time, and no loop inside a loop");
  const int64_t blocks = count / grain + (count % grain != 0);
  RM_CHECK(blocks <= std::numeric_limits<int32_t>::max(), "too many blocks");
  if (threads_.empty() || blocks <= 1) {
    for (int64_t begin = 0; begin < count; begin += grain)
      block(begin, begin + std::min(grain, count - begin));
  } else {
    block_.store(&block, std::memory_order_release);
    count_.store(count, std::memory_order_release);
    grain_.store(grain, std::memory_order_release);
    blocks_.store(static_cast<uint32_t>(blocks), std::memory_order_release);
    unfinished_.store(static_cast<uint32_t>(blocks), std::memory_order_relaxed);
    const uint32_t loop = loop_.load(std::memory_order_relaxed) + 1;
    unclaimed_.store(
        uint64_t{loop} << kLoopShift | static_cast<uint64_t>(blocks),
        std::memory_order_release);
    // Sequentially consistent, like the other changes of a word that is slept
    // on: notify looks for sleepers after it.
    loop_.store(loop);
    loop_.notify_all();
    RunBlocks();
    AwaitUnfinishedZero();
  }
  is_in_loop_.store(false, std::memory_order_release);
}

void ThreadPool::AwaitUnfinishedZero() {
  for (;;) {
    const uint32_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) return;
    AwaitChange(unfinished_, left, spin_rounds_);
  }
}

void ThreadPool::Run() {
  uint32_t seen = 0;
  for (;;) {
    AwaitChange(loop_, seen, spin_rounds_);
    seen = loop_.load();
    if (is_stopping_.load()) return;
    RunBlocks();
  }
}

// A thread may be late: between any two lines below, the loop that it looks at
// can end and the next one begin. It then reads fields of the next loop, but
// their writer has seen the old loop's last block claimed, so the exchange
// below, which expects an unclaimed one, fails. (It would not if the thread
// slept through an exact multiple of 2^32 loops.) And once it has claimed a
// block, that loop cannot end before the block is reported.
void ThreadPool::RunBlocks() {
  uint32_t finished = 0;
  uint64_t unclaimed = unclaimed_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(unclaimed) != 0) {
    const Block* block = block_.load(std::memory_order_acquire);
    const int64_t count = count_.load(std::memory_order_acquire);
    const int64_t grain = grain_.load(std::memory_order_acquire);
    const uint32_t blocks = blocks_.load(std::memory_order_acquire);
    if (!unclaimed_.compare_exchange_weak(unclaimed, unclaimed - 1,
                                          std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      continue;
    }
    const int64_t begin =
        int64_t{blocks - static_cast<uint32_t>(unclaimed)} * grain;
    (*block)(begin, begin + std::min(grain, count - begin));
    ++finished;
    unclaimed = unclaimed_.load(std::memory_order_acquire);
  }
  if (finished != 0 && unfinished_.fetch_sub(finished) == finished)
    unfinished_.notify_one();
}

}  // namespace ringmaster
