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
    : state_(std::make_shared<State>(clock)), thread_([state = state_] {
        pthread_setname_np(pthread_self(), "collectives");
        state->ThreadMain();
      }) {}

void OperationQueue::Stop() {
  {
    MutexLock lock(state_->mutex);
    state_->is_stopping = true;
  }
  state_->added.NotifyAll();
  if (!thread_.joinable()) return;
  if (thread_.get_id() != std::this_thread::get_id()) {
    thread_.join();
    return;
  }
  // In what follows an operation: another thread may run the next one.
  MutexLock lock(state_->mutex);
  while (state_->is_running || !state_->queue.empty()) {
    if (state_->is_running) {
      state_->ran.Wait(state_->mutex);
    } else {
      state_->RunFirst();
    }
  }
  thread_.detach();
}

OperationQueue::Ticket OperationQueue::Add(Operation operation, Operation then,
                                           bool is_small) {
  bool must_wake = false;
  Ticket ticket = 0;
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back({std::move(operation), std::move(then), is_small});
    ticket = ++state_->last_added;
    must_wake = state_->is_thread_asleep || !is_small;
  }
  if (must_wake) state_->added.NotifyAll();
  return ticket;
}

bool OperationQueue::Wait(Ticket ticket, MonotonicTime deadline) {
  MutexLock lock(state_->mutex);
  const bool runs_itself = deadline == MonotonicTime::InfiniteFuture() ||
                           state_->thread == std::this_thread::get_id();
  if (!runs_itself && state_->last_run < ticket) {
    for (Entry& entry : state_->queue) entry.is_small = false;
    state_->added.NotifyAll();
  }
  while (state_->last_run < ticket) {
    if (!state_->is_running && runs_itself) {
      state_->RunFirst();
    } else if (!state_->ran.WaitUntil(state_->mutex, state_->clock, deadline)) {
      return state_->last_run >= ticket;
    }
  }
  return true;
}

bool OperationQueue::WaitForAll(MonotonicTime deadline) {
  Ticket last = 0;
  {
    MutexLock lock(state_->mutex);
    if (state_->thread == std::this_thread::get_id()) return false;
    last = state_->last_added;
  }
  return Wait(last, deadline);
}

void OperationQueue::State::RunFirst() {
  Entry entry = std::move(queue.front());
  queue.pop_front();
  is_running = true;
  mutex.Unlock();
  entry.operation();
  mutex.Lock();
  is_running = false;
  ++last_run;
  ran.NotifyAll();
  mutex.Unlock();
  entry.then();
  entry = Entry();  // what it holds may take its time to be freed
  mutex.Lock();
}

void OperationQueue::State::ThreadMain() {
  MonotonicTime attentive_until;
  MonotonicTime small_since = MonotonicTime::InfiniteFuture();
  MutexLock lock(mutex);
  thread = std::this_thread::get_id();
  while (true) {
    if (is_running) {
      // The one who waits for its end runs what follows.
      ran.Wait(mutex);
      continue;
    }
    const MonotonicTime now = clock.Now();
    if (queue.empty()) {
      small_since = MonotonicTime::InfiniteFuture();
      if (is_stopping) return;
      is_thread_asleep = now >= attentive_until;
      added.WaitUntil(mutex, clock,
                      is_thread_asleep ? MonotonicTime::InfiniteFuture()
                                       : now + kMaxSmallDelay);
      if (is_thread_asleep) attentive_until = clock.Now() + kAttentive;
      is_thread_asleep = false;
      continue;
    }
    attentive_until = now + kAttentive;
    const bool is_due = is_stopping || queue.size() > 1 ||
                        !queue.front().is_small ||
                        now >= small_since + kMaxSmallDelay;
    if (is_due) {
      small_since = MonotonicTime::InfiniteFuture();
      RunFirst();
      continue;
    }
    if (small_since == MonotonicTime::InfiniteFuture()) small_since = now;
    added.WaitUntil(mutex, clock, small_since + kMaxSmallDelay);
  }
}

}  // namespace ringmaster
