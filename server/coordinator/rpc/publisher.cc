#include "server/coordinator/rpc/publisher.h"

#include <utility>

#include "server/coordinator/core/account/explain.h"
#include "server/coordinator/core/state/limit_reached.h"

namespace ringmaster::coordinator {
namespace {

std::shared_ptr<const v1::WatchStatusResponse> StatusMessage(
    const StatusSource& source, const StatusFilter& filter,
    const QueueOutlook& outlook) {
  auto message = std::make_shared<v1::WatchStatusResponse>();
  *message->mutable_status() = StatusProto(source, filter, &outlook);
  return message;
}

bool IsJournalSlow(const StatusSource& source) {
  return source.journal_wait >= kJournalPatience;
}

}  // namespace

template <typename Message>
bool Publisher::IsOneTooMany(Watcher<Message>& watcher) {
  DropGone();
  if (watcher_count() < max_watches_) return false;
  watcher.End(LimitReached(static_cast<int64_t>(max_watches_), "watches",
                           "max_watches"));
  return true;
}

void Publisher::OfferStatus(const StatusSource& source,
                            const QueueOutlook& outlook, StatusWatch& watch) {
  if (!watch.changes.has_value()) {
    watch.watcher->Offer(StatusMessage(source, watch.filter, outlook));
    return;
  }
  auto message =
      watch.changes->Next(StatusProto(source, watch.filter, &outlook),
                          watch.watcher->has_waiting());
  if (message != nullptr) watch.watcher->Offer(std::move(message));
}

void Publisher::AddStatusWatcher(std::shared_ptr<StatusWatcher> watcher,
                                 const v1::WatchStatusRequest& request,
                                 const StatusSource& source) {
  if (IsOneTooMany(*watcher)) return;
  StatusWatch watch = {.filter = StatusFilter(request.filter()),
                       .changes = std::nullopt,
                       .watcher = std::move(watcher)};
  if (request.only_changes()) watch.changes.emplace();
  OfferStatus(source, QueueOutlook(source.state), watch);
  // The other watchers get the change at their own pace; this one may then see
  // the same state again.
  if (status_watchers_.empty() && job_watchers_.empty()) {
    NotePublished(source);
  }
  status_watchers_.push_back(std::move(watch));
}

void Publisher::AddJobWatcher(std::shared_ptr<JobWatcher> watcher,
                              const State& state, const Job& job) {
  if (IsOneTooMany(*watcher)) return;
  JobWatch watch = {
      .job_number = job.number, .revision = 0, .watcher = std::move(watcher)};
  if (OfferJob(state, job, watch)) job_watchers_.push_back(std::move(watch));
}

bool Publisher::OfferJob(const State& state, const Job& job, JobWatch& watch) {
  // Revisions begin at 1, so that the first offer always goes out.
  if (watch.revision != job.revision || watch.revision == 0) {
    auto message = std::make_shared<v1::WatchJobResponse>();
    *message->mutable_job() = JobProto(state, job);
    message->set_revision(static_cast<int64_t>(job.revision));
    watch.revision = job.revision;
    watch.watcher->Offer(std::move(message));
  }
  if (!IsEnded(job.state())) return true;
  watch.watcher->End(absl::OkStatus());
  return false;
}

void Publisher::NotePublished(const StatusSource& source) {
  published_revision_ = source.state.revision;
  published_is_journal_slow_ = IsJournalSlow(source);
  not_before_ = source.now + kPublishInterval;
}

void Publisher::Publish(const StatusSource& source) {
  const State& state = source.state;
  due_ = MonotonicTime::InfiniteFuture();
  const bool is_news = state.revision != published_revision_ ||
                       IsJournalSlow(source) != published_is_journal_slow_;
  if (watcher_count() == 0 || !is_news) return;
  if (source.now < not_before_) {
    due_ = not_before_;
    return;
  }
  DropGone();
  NotePublished(source);
  // Most look at everything, and get the same message.
  std::shared_ptr<const v1::WatchStatusResponse> all;
  std::optional<QueueOutlook> outlook;
  for (StatusWatch& watch : status_watchers_) {
    if (!outlook.has_value()) outlook.emplace(state);
    if (watch.changes.has_value() || !watch.filter.MatchesAll()) {
      OfferStatus(source, *outlook, watch);
      continue;
    }
    if (all == nullptr) all = StatusMessage(source, watch.filter, *outlook);
    watch.watcher->Offer(all);
  }
  std::erase_if(job_watchers_, [&state](JobWatch& watch) {
    const auto it = state.jobs.find(watch.job_number);
    if (it != state.jobs.end()) return !OfferJob(state, it->second, watch);
    // Ended so long ago that the state has forgotten it.
    watch.watcher->End(absl::OkStatus());
    return true;
  });
}

void Publisher::DropGone() {
  std::erase_if(status_watchers_, [](const StatusWatch& watch) {
    return watch.watcher->is_gone();
  });
  std::erase_if(job_watchers_,
                [](const JobWatch& watch) { return watch.watcher->is_gone(); });
}

void Publisher::End(const absl::Status& status) {
  for (const StatusWatch& watch : status_watchers_) watch.watcher->End(status);
  for (const JobWatch& watch : job_watchers_) watch.watcher->End(status);
  status_watchers_.clear();
  job_watchers_.clear();
  due_ = MonotonicTime::InfiniteFuture();
}

}  // namespace ringmaster::coordinator
