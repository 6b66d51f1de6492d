#include "common/clock/testing/fake_clock.h"

#include <vector>

namespace ringmaster {

MonotonicTime FakeClock::Now() const {
  std::lock_guard<std::mutex> guard(mutex_);
  return now_;
}

bool FakeClock::WaitOn(std::condition_variable& cv,
                       std::unique_lock<std::mutex>& lock,
                       MonotonicTime deadline) {
  std::list<Waiter>::iterator self;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (now_ >= deadline) return false;
    self = waiters_.insert(waiters_.end(), {lock.mutex(), &cv, deadline});
  }
  changed_.notify_all();
  cv.wait(lock);

  std::unique_lock<std::mutex> guard(mutex_);
  const bool is_in_use = self->users > 0;
  if (is_in_use) {
    lock.unlock();  // Advance is waiting for it.
    changed_.wait(guard, [&] { return self->users == 0; });
  }
  const bool is_in_time = now_ < deadline;
  waiters_.erase(self);
  guard.unlock();
  if (is_in_use) lock.lock();
  return is_in_time;
}

void FakeClock::Advance(absl::Duration duration) {
  std::vector<Waiter*> due;  // List nodes do not move.
  {
    std::lock_guard<std::mutex> guard(mutex_);
    now_ = now_ + duration;
    for (Waiter& waiter : waiters_) {
      if (waiter.deadline > now_) continue;
      ++waiter.users;
      due.push_back(&waiter);
    }
  }
  for (Waiter* waiter : due) {
    // Taking the waiter's mutex makes sure that it is inside wait(), where the
    // notification reaches it.
    { std::lock_guard<std::mutex> guard(*waiter->mutex); }
    waiter->cv->notify_all();
    {
      std::lock_guard<std::mutex> guard(mutex_);
      --waiter->users;
    }
    changed_.notify_all();
  }
}

void FakeClock::AwaitWaiters(int count) {
  std::unique_lock<std::mutex> guard(mutex_);
  changed_.wait(guard, [&] {
    int waiting = 0;
    for (const Waiter& waiter : waiters_) waiting += waiter.deadline > now_;
    return waiting >= count;
  });
}

void FakeClock::AwaitWaitFor(MonotonicTime deadline) {
  std::unique_lock<std::mutex> guard(mutex_);
  changed_.wait(guard, [&] {
    for (const Waiter& waiter : waiters_) {
      if (waiter.deadline == deadline) return true;
    }
    return false;
  });
}

}  // namespace ringmaster
