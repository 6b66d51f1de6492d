#include "worker/parameter_server/host_mailbox.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(20); }

std::optional<absl::Status> Done() { return absl::OkStatus(); }

TEST(HostMailboxTest, NobodyServesBeforeItIsOpenAndAfterItIsClosed) {
  HostMailbox mailbox(Clock::Real());
  EXPECT_TRUE(absl::IsUnavailable(mailbox.Call(Done, Soon())));
  mailbox.Open([] {});
  mailbox.Close();
  EXPECT_TRUE(absl::IsUnavailable(mailbox.Call(Done, Soon())));
}

TEST(HostMailboxTest, ATaskRunsUntilItIsDone) {
  HostMailbox mailbox(Clock::Real());
  int calls = 0;  // on this thread
  mailbox.Open([] {});
  std::thread caller([&] {
    const absl::Status status = mailbox.Call(
        [&calls]() -> std::optional<absl::Status> {
          if (++calls < 3) return std::nullopt;
          return absl::OutOfRangeError("the third time");
        },
        Soon());
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  });
  while (calls < 3) mailbox.RunAll();
  caller.join();
  EXPECT_EQ(calls, 3);
  mailbox.RunAll();
  EXPECT_EQ(calls, 3);
}

TEST(HostMailboxTest, ATaskThatNobodyComesToIsGivenUp) {
  HostMailbox mailbox(Clock::Real());
  int wakes = 0;
  mailbox.Open([&wakes] { ++wakes; });
  bool was_called = false;
  const absl::Status status = mailbox.Call(
      [&was_called] {
        was_called = true;
        return Done();
      },
      Clock::Real().Now());
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(wakes, 1);
  mailbox.RunAll();
  EXPECT_FALSE(was_called);
}

TEST(HostMailboxTest, WhoWaitsBehindAnotherCanGiveUp) {
  HostMailbox mailbox(Clock::Real());
  std::atomic<int> wakes = 0;
  mailbox.Open([&wakes] { ++wakes; });
  std::atomic<bool> has_given_up = false;
  std::thread first([&] {
    const absl::Status status = mailbox.Call(
        [&]() -> std::optional<absl::Status> {
          const MonotonicTime end = Soon();
          while (!has_given_up && Clock::Real().Now() < end)
            std::this_thread::yield();
          return absl::OkStatus();
        },
        Soon());
    EXPECT_TRUE(status.ok()) << status;
  });
  while (wakes < 1) std::this_thread::yield();
  bool was_called = false;
  std::thread second([&] {
    const absl::Status status = mailbox.Call(
        [&was_called] {
          was_called = true;
          return Done();
        },
        Clock::Real().Now() + absl::Seconds(1));
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    has_given_up = true;
  });
  while (wakes < 2) std::this_thread::yield();
  mailbox.RunAll();
  second.join();
  first.join();
  EXPECT_FALSE(was_called);
}

TEST(HostMailboxTest, WhoWaitsWhenItIsClosedIsTold) {
  HostMailbox mailbox(Clock::Real());
  Mutex mutex;
  CondVar changed;
  bool is_woken = false;
  mailbox.Open([&] {
    const MutexLock lock(mutex);
    is_woken = true;
    changed.NotifyAll();
  });
  std::thread caller(
      [&] { EXPECT_TRUE(absl::IsUnavailable(mailbox.Call(Done, Soon()))); });
  {
    const MutexLock lock(mutex);
    while (!is_woken)
      ASSERT_TRUE(changed.WaitUntil(mutex, Clock::Real(), Soon()));
  }
  mailbox.Close();
  caller.join();
}

}  // namespace
}  // namespace ringmaster
