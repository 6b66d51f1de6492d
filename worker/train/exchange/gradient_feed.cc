#include "worker/train/exchange/gradient_feed.h"

#include <pthread.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace ringmaster {
namespace {

// The time between two polls of a copy, far below the time of a bucket. (No
// accelerator offers a wait that could be interrupted.)
constexpr absl::Duration kPollInterval = absl::Microseconds(20);

}  // namespace

GradientFeed::GradientFeed(ServerCopies& copies, Clock& clock)
    : copies_(copies), clock_(clock), thread_([this] {
        pthread_setname_np(pthread_self(), "gradient feed");
        Run();
      }) {}

GradientFeed::~GradientFeed() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

absl::Status GradientFeed::Add(int bucket, absl::Span<float> host,
                               std::function<void()> push) {
  absl::Status started = copies_.StartGradients(bucket, host);
  if (!started.ok()) return started;
  {
    MutexLock lock(mutex_);
    entries_.push_back({bucket, std::move(push)});
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status GradientFeed::Await(MonotonicTime deadline) {
  MutexLock lock(mutex_);
  while (failure_.ok() && !entries_.empty()) {
    if (changed_.WaitUntil(mutex_, clock_, deadline)) continue;
    if (entries_.empty()) break;
    failure_ = absl::InternalError(
        absl::StrCat("the gradients of bucket ", entries_.front().bucket,
                     " did not come from the accelerator in time"));
  }
  return failure_;
}

int GradientFeed::AwaitEntry() {
  MutexLock lock(mutex_);
  while (!is_stopping_ && failure_.ok() && entries_.empty())
    changed_.Wait(mutex_);
  return is_stopping_ || !failure_.ok() ? -1 : entries_.front().bucket;
}

void GradientFeed::PushFirst() {
  std::function<void()> push;
  {
    MutexLock lock(mutex_);
    push = std::move(entries_.front().push);
  }
  push();
  MutexLock lock(mutex_);
  entries_.pop_front();
  if (entries_.empty()) changed_.NotifyAll();
}

void GradientFeed::Run() {
  while (true) {
    const int bucket = AwaitEntry();
    if (bucket < 0) return;
    const absl::StatusOr<bool> is_there = copies_.HasGradients(bucket);
    if (!is_there.ok()) {
      MutexLock lock(mutex_);
      failure_.Update(is_there.status());
      changed_.NotifyAll();
      return;
    }
    if (*is_there) {
      PushFirst();
    } else {
      MutexLock lock(mutex_);
      if (!is_stopping_)
        changed_.WaitUntil(mutex_, clock_, clock_.Now() + kPollInterval);
    }
  }
}

}  // namespace ringmaster
