// ThreadPool is a fixed set of threads that share loops; the caller of a loop
// is one of them.
//
// Guarantees: blocks depend on the element count and the grain alone, never on
// the number of threads, so a result that is a function of its block is the
// same for every pool. A loop allocates nothing. Polite to a busy neighbour:
// threads claim blocks as they go, so one that lost its processor delays its
// own block only, and one that finds no work spins for a bounded number of
// rounds (about 25 us; none in a pool larger than the machine) and then sleeps
// in the kernel.
// Not guaranteed: which thread runs a block, or the order of blocks.
// Thread-safety: one caller at a time, and no loop inside a loop (a CHECK).
// Writes made before ParallelFor are visible to every block, and those of the
// blocks to the caller afterwards.
// Ownership: the destructor stops and joins the threads.
// Example:
//   ThreadPool pool(4);
//   pool.ParallelFor(n, 1024, [&](int64_t begin, int64_t end) {
//     for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
//   });
#ifndef RINGMASTER_COMMON_SYNC_THREAD_POOL_H_
#define RINGMASTER_COMMON_SYNC_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ringmaster {

class ThreadPool {
 public:
  using Block = absl::FunctionRef<void(int64_t begin, int64_t end)>;

  // Requires threads >= 1. The caller counts as one: 1 starts no thread and
  // runs every loop inline.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  // Threads that share a loop, the caller included.
  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls block(begin, end) for each `grain` elements of [0, count), the last
  // ones maybe fewer, and returns when all calls have. Requires count >= 0,
  // grain >= 1 and fewer than 2^31 blocks.
  void ParallelFor(int64_t count, int64_t grain, Block block);

 private:
  // The main function of a thread: runs blocks of the current loop.
  void Run();
  // Claims and runs blocks of the current loop until none is left to claim.
  void RunBlocks();
  void AwaitUnfinishedZero();

  static constexpr int kCacheLineBytes = 64;

  // The current loop. Written by the caller between loops while late threads
  // may still read it, hence atomic; RunBlocks explains why this never misleads
  // them.
  std::atomic<const Block*> block_ = nullptr;
  std::atomic<int64_t> count_ = 0;
  std::atomic<int64_t> grain_ = 1;
  std::atomic<uint32_t> blocks_ = 0;

  // The loop's number in the high half, blocks still to claim in the low half.
  alignas(kCacheLineBytes) std::atomic<uint64_t> unclaimed_ = 0;
  // Blocks of the loop that have not returned; the caller sleeps on it.
  alignas(kCacheLineBytes) std::atomic<uint32_t> unfinished_ = 0;
  // The loop's number; idle threads sleep on it.
  alignas(kCacheLineBytes) std::atomic<uint32_t> loop_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> is_in_loop_ = false;

  int spin_rounds_ = 0;               // constant after construction
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_SYNC_THREAD_POOL_H_
