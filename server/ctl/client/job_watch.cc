#include "server/ctl/client/job_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"

namespace ringmaster::ctl {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

bool IsEnd(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

}  // namespace

bool IsWorthARetry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsAborted(status);
}

JobWatch::JobWatch(std::unique_ptr<Client> client, std::string job,
                   JobWatchOptions options, Clock& clock, Bell& bell)
    : client_(std::move(client)),
      job_(std::move(job)),
      options_(options),
      clock_(clock),
      bell_(bell) {
  follower_ = std::thread([this] { Run(); });
}

JobWatch::~JobWatch() {
  {
    MutexLock lock(mutex_);
    is_stopped_ = true;
    stopped_.NotifyAll();
  }
  client_->Shutdown();
  follower_.join();
}

WatchSnapshot JobWatch::Snapshot() const {
  MutexLock lock(mutex_);
  return snapshot_;
}

void JobWatch::Run() {
  absl::Duration pause = kFirstPause;
  MonotonicTime give_up = MonotonicTime::InfiniteFuture();
  while (true) {
    const int64_t before = Snapshot().updates;
    const absl::Status status = FollowOnce();
    if (HasJobEnded()) return End(absl::OkStatus());
    const int64_t after = Snapshot().updates;
    if (after == 0 || !IsWorthARetry(status)) return End(status);
    if (after > before) {
      pause = kFirstPause;
      give_up = clock_.Now() + options_.reconnect_limit;
    }
    if (clock_.Now() >= give_up) {
      return End(Annotate(status, absl::StrCat("gave up after ",
                                               absl::FormatDuration(
                                                   options_.reconnect_limit))));
    }
    NoteLost(status);
    if (!Pause(pause))
      return End(absl::CancelledError("the watch was stopped"));
    client_->Reconnect();
    pause = std::min(2 * pause, kLongestPause);
  }
}

// Connects and publishes changes until the stream ends, which without an end of
// the job is an error.
absl::Status JobWatch::FollowOnce() {
  const std::optional<v1::Job> known = Snapshot().job;
  // First a call with a deadline: it shows whether the coordinator answers, and
  // it resolves the name once, so that the watch does not move to a newer job
  // of that name after a restart.
  ASSIGN_OR_RETURN(const v1::Job job,
                   client_->GetJob(known.has_value() ? known->id() : job_));
  Publish(job);
  if (IsEnd(job.state())) return absl::OkStatus();
  RETURN_IF_ERROR(client_->WatchJob(
      job.id(), [this](const v1::Job& changed) { Publish(changed); }));
  return absl::UnavailableError(
      absl::StrCat("the coordinator at ", client_->address(),
                   " ended the stream before the job's end"));
}

void JobWatch::Publish(const v1::Job& job) {
  {
    MutexLock lock(mutex_);
    snapshot_.job = job;
    ++snapshot_.updates;
    snapshot_.lost.clear();
  }
  bell_.Ring();
}

void JobWatch::NoteLost(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    snapshot_.lost = std::string(status.message());
  }
  bell_.Ring();
}

void JobWatch::End(absl::Status status) {
  {
    MutexLock lock(mutex_);
    snapshot_.end = std::move(status);
  }
  bell_.Ring();
}

bool JobWatch::HasJobEnded() const {
  MutexLock lock(mutex_);
  return snapshot_.job.has_value() && IsEnd(snapshot_.job->state());
}

bool JobWatch::Pause(absl::Duration pause) {
  const MonotonicTime until = clock_.Now() + pause;
  MutexLock lock(mutex_);
  while (!is_stopped_) {
    if (!stopped_.WaitUntil(mutex_, clock_, until)) return true;
  }
  return false;
}

}  // namespace ringmaster::ctl
