#include "worker/parameter_server/host_mailbox.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ringmaster {
namespace {

absl::Status NobodyServes() {
  return absl::UnavailableError(
      "the job is between two generations here; try again");
}

}  // namespace

absl::Status HostMailbox::Call(Task task, MonotonicTime deadline) {
  Pending own = {std::move(task)};
  MutexLock lock(mutex_);
  if (wake_ == nullptr) return NobodyServes();
  pending_.push_back(&own);
  has_pending_.store(true, std::memory_order_release);
  wake_();
  bool is_late = false;
  while (!own.result.has_value()) {
    if (is_late && !own.is_running) {
      Remove(&own);
      return absl::DeadlineExceededError(
          "the parameter server did not come to it in time");
    }
    // A task that runs refers to `own`; if it waits, it does so up to a
    // deadline.
    is_late |= !changed_.WaitUntil(
        mutex_, clock_, is_late ? MonotonicTime::InfiniteFuture() : deadline);
  }
  return *own.result;
}

void HostMailbox::Open(std::function<void()> wake) {
  MutexLock lock(mutex_);
  wake_ = std::move(wake);
}

void HostMailbox::Wake() {
  MutexLock lock(mutex_);
  if (wake_ != nullptr) wake_();
}

void HostMailbox::Close() {
  {
    MutexLock lock(mutex_);
    wake_ = nullptr;
    for (Pending* const pending : pending_) pending->result = NobodyServes();
    pending_.clear();
    has_pending_.store(false, std::memory_order_release);
  }
  changed_.NotifyAll();
}

bool HostMailbox::TryBegin(Pending* pending) {
  MutexLock lock(mutex_);
  if (std::find(pending_.begin(), pending_.end(), pending) == pending_.end())
    return false;
  pending->is_running = true;
  return true;
}

void HostMailbox::Remove(Pending* pending) {
  pending_.remove(pending);
  has_pending_.store(!pending_.empty(), std::memory_order_release);
}

void HostMailbox::RunAll() {
  if (!has_pending_.load(std::memory_order_acquire)) return;
  std::vector<Pending*> now;
  {
    MutexLock lock(mutex_);
    now.assign(pending_.begin(), pending_.end());
  }
  for (Pending* const pending : now) {
    // Its caller may have given up while another was running.
    if (!TryBegin(pending)) continue;
    std::optional<absl::Status> result = pending->task();
    {
      MutexLock lock(mutex_);
      pending->is_running = false;
      if (result.has_value()) {
        pending->result = std::move(result);
        Remove(pending);
      }
    }
    changed_.NotifyAll();
  }
}

}  // namespace ringmaster
