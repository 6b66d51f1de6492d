#include "server/parameter_server/host_mailbox.h"

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
