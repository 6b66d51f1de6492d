#include "worker/torch/operation_queue.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(30); }
MonotonicTime Never() { return MonotonicTime::InfiniteFuture(); }

constexpr auto kNothing = [] {};

// A gate that operations wait at.
class Gate {
 public:
  void Open() { is_open_ = true; }
  void Pass() const {
    while (!is_open_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> is_open_{false};
};

TEST(OperationQueueTest, RunsInOrderWhoeverWaits) {
  OperationQueue queue(Clock::Real());
  std::vector<int> order;
  OperationQueue::Ticket last = 0;
  for (int i = 0; i < 100; ++i) {
    last = queue.Add([&order, i] { order.push_back(i); }, kNothing,
                     /*is_small=*/i % 3 != 0);
    if (i % 7 == 0) {
      EXPECT_TRUE(queue.Wait(last, Soon()));
    }
  }
  EXPECT_TRUE(queue.Wait(last, Soon()));
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(OperationQueueTest, BeginsWithoutAWait) {
  for (const bool is_small : {false, true}) {
    OperationQueue queue(Clock::Real());
    std::atomic<bool> has_run{false};
    queue.Add([&] { has_run = true; }, kNothing, is_small);
    const MonotonicTime limit = Soon();
    while (!has_run && Clock::Real().Now() < limit) std::this_thread::yield();
    EXPECT_TRUE(has_run) << is_small;
  }
}

TEST(OperationQueueTest, AWaitForWhatAnotherRunsHasADeadline) {
  OperationQueue queue(Clock::Real());
  Gate began;
  Gate gate;
  const auto ticket = queue.Add(
      [&] {
        began.Open();
        gate.Pass();
      },
      kNothing, /*is_small=*/false);
  began.Pass();  // on the queue's thread
  EXPECT_FALSE(queue.Wait(ticket, Clock::Real().Now() + absl::Milliseconds(5)));
  gate.Open();
  EXPECT_TRUE(queue.Wait(ticket, Never()));
}

TEST(OperationQueueTest, ThreadsThatWaitDoNotDisturbEachOther) {
  OperationQueue queue(Clock::Real());
  std::atomic<int> sum{0};
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        const auto ticket = queue.Add(
            [&] {
              EXPECT_EQ(++inside, 1);
              ++sum;
              --inside;
            },
            kNothing, /*is_small=*/k % 2 == 0);
        EXPECT_TRUE(queue.Wait(ticket, Soon()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 800);
}

TEST(OperationQueueTest, WhatFollowsAnOperationMayWaitForAnother) {
  for (const bool is_small : {true, false}) {
    OperationQueue queue(Clock::Real());
    std::vector<int> order;
    std::atomic<bool> is_over{false};
    queue.Add([&] { order.push_back(1); },
              [&] {
                const auto inner =
                    queue.Add([&] { order.push_back(2); }, kNothing, is_small);
                EXPECT_TRUE(queue.Wait(inner, Soon()));
                is_over = true;
              },
              is_small);
    const MonotonicTime limit = Soon();
    while (!is_over && Clock::Real().Now() < limit) std::this_thread::yield();
    EXPECT_TRUE(is_over);
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  }
}

TEST(OperationQueueTest, AWaitWithADeadlineLeavesTheWorkToTheThread) {
  OperationQueue queue(Clock::Real());
  Gate gate;
  const auto ticket =
      queue.Add([&] { gate.Pass(); }, kNothing, /*is_small=*/true);
  EXPECT_FALSE(queue.Wait(ticket, Clock::Real().Now() + absl::Milliseconds(5)));
  EXPECT_FALSE(queue.WaitForAll(Clock::Real().Now() + absl::Milliseconds(5)));
  gate.Open();
  EXPECT_TRUE(queue.WaitForAll(Soon()));
}

TEST(OperationQueueTest, MayEndOnItsOwnThread) {
  auto queue = std::make_shared<OperationQueue>(Clock::Real());
  std::atomic<bool> is_over{false};
  OperationQueue* const raw = queue.get();
  Gate gate;
  // The last one who knows it is what follows its operation.
  raw->Add([&] { gate.Pass(); },
           [&, owner = std::move(queue)]() mutable {
             owner.reset();
             is_over = true;
           },
           /*is_small=*/false);
  gate.Open();
  const MonotonicTime limit = Soon();
  while (!is_over && Clock::Real().Now() < limit) std::this_thread::yield();
  EXPECT_TRUE(is_over);
}

TEST(OperationQueueTest, NothingRunsAfterItsEndOnItsOwnThread) {
  auto queue = std::make_shared<OperationQueue>(Clock::Real());
  Gate first_is_over;
  Gate second_runs;
  std::atomic<bool> is_running{false};
  std::atomic<bool> is_over{false};
  OperationQueue* const raw = queue.get();
  raw->Add([] {},
           [&] {
             first_is_over.Open();
             second_runs.Pass();
             EXPECT_FALSE(raw->WaitForAll(Soon()));
             raw->Stop();
             EXPECT_FALSE(is_running);
             is_over = true;
           },
           /*is_small=*/false);
  first_is_over.Pass();
  const auto second = raw->Add(
      [&] {
        is_running = true;
        second_runs.Open();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        is_running = false;
      },
      kNothing, /*is_small=*/true);
  EXPECT_TRUE(raw->Wait(second, Never()));  // on this thread
  const MonotonicTime limit = Soon();
  while (!is_over && Clock::Real().Now() < limit) std::this_thread::yield();
  EXPECT_TRUE(is_over);
}

TEST(OperationQueueTest, OnceStoppedItRunsWhatIsWaitedFor) {
  OperationQueue queue(Clock::Real());
  queue.Stop();
  queue.Stop();
  bool has_run = false;
  const auto ticket =
      queue.Add([&] { has_run = true; }, kNothing, /*is_small=*/false);
  EXPECT_TRUE(queue.Wait(ticket, Never()));
  EXPECT_TRUE(has_run);
}

TEST(OperationQueueTest, TheEndRunsWhatIsQueued) {
  std::atomic<int> ran{0};
  {
    OperationQueue queue(Clock::Real());
    for (int i = 0; i < 10; ++i)
      queue.Add([&] { ++ran; }, kNothing, /*is_small=*/true);
  }
  EXPECT_EQ(ran, 10);
}

}  // namespace
}  // namespace ringmaster
