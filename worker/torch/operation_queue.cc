#include "worker/torch/operation_queue.h"

#include <pthread.h>

#include <utility>

namespace ringmaster {
namespace {

// The thread goes on looking for small operations by itself, without being woken
// for each, for as long as this after the last one.
constexpr absl::Duration kAttentive = absl::Milliseconds(5);

}  // namespace

OperationQueue::OperationQueue(Clock& clock)
    : clock_(clock), thread_([this] {
        pthread_setname_np(pthread_self(), "collectives");
        ThreadMain();
      }) {}

OperationQueue::~OperationQueue() { Stop(); }

void OperationQueue::Stop() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  added_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

OperationQueue::Ticket OperationQueue::Add(Operation operation, Operation then,
                                           bool is_small) {
  bool must_wake = false;
  Ticket ticket = 0;
  {
    MutexLock lock(mutex_);
    queue_.push_back({std::move(operation), std::move(then), is_small});
    ticket = ++last_added_;
    must_wake = is_thread_asleep_ || !is_small;
  }
  if (must_wake) added_.NotifyAll();
  return ticket;
}

void OperationQueue::RunFirst() {
  Entry entry = std::move(queue_.front());
  queue_.pop_front();
  is_running_ = true;
  mutex_.Unlock();
  entry.operation();
  mutex_.Lock();
  is_running_ = false;
  ++last_run_;
  ran_.NotifyAll();
  mutex_.Unlock();
  entry.then();
  entry = Entry();  // what it holds may take its time to be freed
  mutex_.Lock();
}

bool OperationQueue::Wait(Ticket ticket, MonotonicTime deadline) {
  MutexLock lock(mutex_);
  while (last_run_ < ticket) {
    if (!is_running_) {
      RunFirst();
    } else if (!ran_.WaitUntil(mutex_, clock_, deadline)) {
      return last_run_ >= ticket;
    }
  }
  return true;
}

void OperationQueue::ThreadMain() {
  MonotonicTime attentive_until;
  MonotonicTime small_since = MonotonicTime::InfiniteFuture();
  MutexLock lock(mutex_);
  while (true) {
    if (is_running_) {
      // The one who waits for its end runs what follows.
      ran_.WaitUntil(mutex_, clock_, MonotonicTime::InfiniteFuture());
      continue;
    }
    const MonotonicTime now = clock_.Now();
    if (queue_.empty()) {
      small_since = MonotonicTime::InfiniteFuture();
      if (is_stopping_) return;
      is_thread_asleep_ = now >= attentive_until;
      added_.WaitUntil(mutex_, clock_,
                       is_thread_asleep_ ? MonotonicTime::InfiniteFuture()
                                         : now + kMaxSmallDelay);
      if (is_thread_asleep_) attentive_until = clock_.Now() + kAttentive;
      is_thread_asleep_ = false;
      continue;
    }
    attentive_until = now + kAttentive;
    const bool is_due = is_stopping_ || queue_.size() > 1 ||
                        !queue_.front().is_small ||
                        now >= small_since + kMaxSmallDelay;
    if (is_due) {
      small_since = MonotonicTime::InfiniteFuture();
      RunFirst();
      continue;
    }
    if (small_since == MonotonicTime::InfiniteFuture()) small_since = now;
    added_.WaitUntil(mutex_, clock_, small_since + kMaxSmallDelay);
  }
}

}  // namespace ringmaster
