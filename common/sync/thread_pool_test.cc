#include "common/sync/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using Blocks = std::multiset<std::pair<int64_t, int64_t>>;

// The blocks that `pool` calls, in no order.
Blocks BlocksOf(ThreadPool& pool, int64_t count, int64_t grain) {
  std::vector<std::pair<int64_t, int64_t>> called(1000);
  std::atomic<size_t> calls = 0;
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    called[calls.fetch_add(1)] = {begin, end};
  });
  return Blocks(called.begin(), called.begin() + calls.load());
}

TEST(ThreadPoolTest, BlocksTileTheCountWhateverTheNumberOfThreads) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t count : {0, 1, 7, 8, 9, 100}) {
      for (int64_t grain : {1, 3, 8, 1000}) {
        Blocks expected;
        for (int64_t begin = 0; begin < count; begin += grain)
          expected.emplace(begin, std::min(begin + grain, count));
        EXPECT_EQ(BlocksOf(pool, count, grain), expected)
            << threads << " threads, " << count << " by " << grain;
      }
    }
  }
}

// Loops follow each other so closely that late threads of one meet the next,
// with a different count, grain and function; more threads than processors make
// them late.
TEST(ThreadPoolTest, LoopsInARowRunEachElementOnce) {
  for (int threads : {2, 4, 16}) {
    ThreadPool pool(threads);
    std::vector<int> runs(257);
    for (int loop = 1; loop <= 3000; ++loop) {
      const int64_t count = 1 + loop % 257;
      std::fill(runs.begin(), runs.end(), 0);
      pool.ParallelFor(count, 1 + loop % 5, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          runs[static_cast<size_t>(i)] += loop;
      });
      for (int64_t i = 0; i < 257; ++i) {
        ASSERT_EQ(runs[static_cast<size_t>(i)], i < count ? loop : 0)
            << "element " << i << " of loop " << loop;
      }
    }
  }
}

TEST(ThreadPoolTest, SeveralPoolsShareTheMachine) {
  std::vector<int64_t> sums(4);
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&sum = sums[caller]] {
      ThreadPool pool(3);
      for (int loop = 0; loop < 500; ++loop) {
        std::atomic<int64_t> total = 0;
        pool.ParallelFor(100, 7, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) total += i;
        });
        sum += total;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, 500 * 4950);
}

// Each block waits until all have begun: it returns only if each thread, the
// caller included, took one.
TEST(ThreadPoolTest, EveryThreadTakesPart) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  for (int loop = 0; loop < 20; ++loop) {
    std::atomic<int> begun = 0;
    pool.ParallelFor(kThreads, 1, [&](int64_t, int64_t) {
      begun.fetch_add(1);
      begun.notify_all();
      for (int now = begun; now < kThreads; now = begun) begun.wait(now);
    });
    EXPECT_EQ(begun, kThreads);
  }
}

TEST(ThreadPoolTest, AnIdlePoolEnds) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

TEST(ThreadPoolDeathTest, RefusesALoopInsideALoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ThreadPool pool(1);
  const auto nothing = [](int64_t, int64_t) {};
  EXPECT_DEATH(
      pool.ParallelFor(
          1, 1, [&](int64_t, int64_t) { pool.ParallelFor(1, 1, nothing); }),
      "no loop inside a loop");
}

}  // namespace
}  // namespace ringmaster
