#include "common/executor/serial_executor.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/testing/fake_clock.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

// Keeps the executor's thread busy from construction to Release, so that tasks
// queue up.
class Blocker {
 public:
  explicit Blocker(SerialExecutor& executor) {
    std::promise<void> started;
    executor.PostUrgent([this, &started] {
      started.set_value();
      released_.get_future().wait();
    });
    started.get_future().wait();
  }
  void Release() { released_.set_value(); }

 private:
  std::promise<void> released_;
};

TEST(SerialExecutorTest, AnswersUnlessATaskHoldsItUp) {
  SerialExecutor executor(Clock::Real());
  EXPECT_TRUE(executor.Answers(absl::Seconds(40)));
  Blocker blocker(executor);
  EXPECT_FALSE(executor.Answers(absl::Milliseconds(20)));
  blocker.Release();
  EXPECT_TRUE(executor.Answers(absl::Seconds(40)));
  executor.Stop();
  EXPECT_FALSE(executor.Answers(absl::Seconds(40)));
}

TEST(SerialExecutorTest, RunsTasksInOrderOnOneOtherThread) {
  FakeClock clock;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  SerialExecutor executor(clock);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(executor
                    .Post([&, i] {
                      order.push_back(i);
                      threads.push_back(std::this_thread::get_id());
                    })
                    .ok());
  }
  executor.Stop();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  for (const std::thread::id id : threads) {
    EXPECT_EQ(id, threads[0]);
    EXPECT_NE(id, std::this_thread::get_id());
  }
}

TEST(SerialExecutorTest, KnowsItsOwnThread) {
  FakeClock clock;
  SerialExecutor executor(clock);
  SerialExecutor other(clock);
  EXPECT_FALSE(executor.RunsTasksInThisThread());
  std::promise<std::pair<bool, bool>> inside;
  executor.PostUrgent([&] {
    inside.set_value(
        {executor.RunsTasksInThisThread(), other.RunsTasksInThisThread()});
  });
  EXPECT_EQ(inside.get_future().get(), std::make_pair(true, false));
}

TEST(SerialExecutorTest, UrgentTasksGoFirst) {
  FakeClock clock;
  std::vector<int> order;
  SerialExecutor executor(clock);
  Blocker blocker(executor);
  ASSERT_TRUE(executor.Post([&] { order.push_back(3); }).ok());
  executor.PostUrgent([&] { order.push_back(1); });
  executor.PostUrgent([&] { order.push_back(2); });
  EXPECT_EQ(executor.queued_count(), 3u);
  blocker.Release();
  executor.Stop();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(SerialExecutorTest, ManyUrgentTasksDoNotStarveAnOrdinaryOne) {
  FakeClock clock;
  std::atomic<int> urgent_before{-1};
  int urgent_run = 0;
  SerialExecutor executor(clock);
  Blocker blocker(executor);
  for (int i = 0; i < 500; ++i) executor.PostUrgent([&] { ++urgent_run; });
  ASSERT_TRUE(executor.Post([&] { urgent_before = urgent_run; }).ok());
  blocker.Release();
  executor.Stop();
  EXPECT_EQ(urgent_run, 500);
  EXPECT_LE(urgent_before, 64);
  EXPECT_GE(urgent_before, 0);
}

TEST(SerialExecutorTest, RefusesOrdinaryTasksWhenFullButNeverUrgentOnes) {
  FakeClock clock;
  int run = 0;
  SerialExecutor executor(clock, {.name = "coordinator", .max_queued = 2});
  Blocker blocker(executor);
  EXPECT_TRUE(executor.Post([&] { ++run; }).ok());
  EXPECT_TRUE(executor.Post([&] { ++run; }).ok());
  const absl::Status refused = executor.Post([&] { ++run; });
  EXPECT_EQ(refused, absl::ResourceExhaustedError(
                         "coordinator is overloaded: 2 requests wait; retry "
                         "later"));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(executor.PostUrgent([&] { ++run; }));
  blocker.Release();
  executor.Stop();
  EXPECT_EQ(run, 12);
}

TEST(SerialExecutorTest, WakeupRunsOnceWhenTheClockReachesIt) {
  FakeClock clock;
  SerialExecutor executor(clock);
  std::promise<MonotonicTime> woken;
  const MonotonicTime when = clock.Now() + absl::Seconds(5);
  executor.SetWakeup(when, [&] { woken.set_value(clock.Now()); });
  clock.AwaitWaitFor(when);
  clock.Advance(absl::Seconds(4));
  clock.AwaitWaitFor(when);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(woken.get_future().get(), when);  // A second run would throw.
  clock.Advance(absl::Seconds(100));
}

TEST(SerialExecutorTest, ANewWakeupReplacesTheOld) {
  FakeClock clock;
  SerialExecutor executor(clock);
  std::atomic<bool> old_ran{false};
  executor.SetWakeup(clock.Now() + absl::Seconds(1), [&] { old_ran = true; });
  std::promise<void> woken;
  const MonotonicTime when = clock.Now() + absl::Seconds(2);
  executor.SetWakeup(when, [&] { woken.set_value(); });
  clock.AwaitWaitFor(when);
  clock.Advance(absl::Seconds(2));
  woken.get_future().wait();
  EXPECT_FALSE(old_ran);
}

TEST(SerialExecutorTest, AnEarlierWakeupShortensTheWait) {
  FakeClock clock;
  SerialExecutor executor(clock);
  executor.SetWakeup(clock.Now() + absl::Seconds(9), [] {});
  clock.AwaitWaiters(1);
  std::promise<void> woken;
  executor.SetWakeup(clock.Now() + absl::Seconds(1),
                     [&] { woken.set_value(); });
  clock.AwaitWaitFor(clock.Now() + absl::Seconds(1));
  clock.Advance(absl::Seconds(1));
  woken.get_future().wait();
}

TEST(SerialExecutorTest, AClearedWakeupDoesNotRun) {
  FakeClock clock;
  bool woken = false;
  SerialExecutor executor(clock);
  executor.SetWakeup(clock.Now() + absl::Seconds(1), [&] { woken = true; });
  executor.ClearWakeup();
  clock.Advance(absl::Seconds(2));
  std::promise<void> done;
  ASSERT_TRUE(executor.Post([&] { done.set_value(); }).ok());
  done.get_future().wait();
  executor.Stop();
  EXPECT_FALSE(woken);
}

TEST(SerialExecutorTest, ADueWakeupRunsAfterQueuedUrgentTasks) {
  FakeClock clock;
  std::vector<int> order;
  SerialExecutor executor(clock);
  std::promise<void> ordinary_done;
  {
    Blocker blocker(executor);
    executor.SetWakeup(clock.Now() + absl::Seconds(1),
                       [&] { order.push_back(2); });
    clock.Advance(absl::Seconds(1));
    ASSERT_TRUE(executor
                    .Post([&] {
                      order.push_back(3);
                      ordinary_done.set_value();
                    })
                    .ok());
    executor.PostUrgent([&] { order.push_back(1); });
    blocker.Release();
    ordinary_done.get_future().wait();
  }
  executor.Stop();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(SerialExecutorTest, AWakeupThatIsAlwaysDueDoesNotStarveOrdinaryTasks) {
  FakeClock clock;
  SerialExecutor executor(clock);
  std::atomic<bool> is_over{false};
  std::function<void()> again = [&] {
    if (!is_over) executor.SetWakeup(clock.Now(), [&] { again(); });
  };
  executor.SetWakeup(clock.Now(), [&] { again(); });
  std::promise<void> done;
  ASSERT_TRUE(executor.Post([&] { done.set_value(); }).ok());
  done.get_future().wait();
  is_over = true;
  executor.Stop();
}

TEST(SerialExecutorTest, TasksMayPost) {
  FakeClock clock;
  SerialExecutor executor(clock);
  std::promise<void> done;
  executor.PostUrgent(
      [&] { ASSERT_TRUE(executor.Post([&] { done.set_value(); }).ok()); });
  done.get_future().wait();
}

TEST(SerialExecutorTest, StopRunsWhatIsQueuedDropsTheWakeupAndRefusesTheRest) {
  FakeClock clock;
  auto in_wakeup = std::make_shared<int>(0);
  int run = 0;
  SerialExecutor executor(clock);
  {
    Blocker blocker(executor);
    ASSERT_TRUE(executor.Post([&] { ++run; }).ok());
    executor.SetWakeup(clock.Now(), [in_wakeup] { ++*in_wakeup; });
    std::thread stopping([&] { executor.Stop(); });
    while (executor.PostUrgent([] {})) std::this_thread::yield();
    blocker.Release();
    stopping.join();
  }
  EXPECT_EQ(run, 1);
  EXPECT_EQ(*in_wakeup, 0);
  EXPECT_EQ(in_wakeup.use_count(), 1);

  const absl::Status refused = executor.Post([&] { ++run; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), reason::kShuttingDown);
  executor.SetWakeup(clock.Now(), [in_wakeup] { ++*in_wakeup; });
  EXPECT_EQ(in_wakeup.use_count(), 1);
  executor.Stop();  // Again: nothing happens.
  EXPECT_EQ(run, 1);
}

TEST(SerialExecutorTest, RunsEveryTaskOfManyThreads) {
  FakeClock clock;
  int run = 0;
  SerialExecutor executor(clock, {.name = "many", .max_queued = 100'000});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        ASSERT_TRUE(executor.Post([&] { ++run; }).ok());
        executor.PostUrgent([&] { ++run; });
        executor.SetWakeup(clock.Now() + absl::Seconds(1), [] {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  executor.Stop();
  EXPECT_EQ(run, 4'000);
}

TEST(SerialExecutorDeathTest, ATaskCannotStopItsExecutor) {
  EXPECT_DEATH(
      {
        SerialExecutor executor(Clock::Real());
        executor.PostUrgent([&] { executor.Stop(); });
        executor.Stop();
      },
      "cannot stop its own executor");
}

}  // namespace
}  // namespace ringmaster
