#include "server/parameter_server/host_mailbox.h"

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
  wake_();
  bool is_late = false;
  while (!own.result.has_value()) {
    if (is_late && !own.is_running) {
      pending_.remove(&own);
      return absl::DeadlineExceededError(
          "the parameter server did not come to it in time");
    }
    // What runs is short, and refers to `own`.
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
  }
  changed_.NotifyAll();
}

void HostMailbox::RunAll() {
  std::vector<Pending*> now;
  {
    MutexLock lock(mutex_);
    if (pending_.empty()) return;
    now.assign(pending_.begin(), pending_.end());
    for (Pending* const pending : now) pending->is_running = true;
  }
  std::vector<std::optional<absl::Status>> results;
  for (Pending* const pending : now) results.push_back(pending->task());
  {
    MutexLock lock(mutex_);
    for (size_t i = 0; i < now.size(); ++i) {
      now[i]->is_running = false;
      if (!results[i].has_value()) continue;
      now[i]->result = std::move(results[i]);
      pending_.remove(now[i]);
    }
  }
  changed_.NotifyAll();
}

}  // namespace ringmaster
