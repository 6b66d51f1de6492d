// Publisher sends states to watchers: the present one at once, then the newest
// one at most ten times a second.
//
// Thread-compatible; lives on the coordinator's executor.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_PUBLISHER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_PUBLISHER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/rpc/limits.h"
#include "server/coordinator/rpc/state_proto.h"
#include "server/coordinator/rpc/status_changes.h"
#include "server/coordinator/rpc/status_filter.h"
#include "server/coordinator/rpc/watcher.h"

namespace ringmaster::coordinator {

using StatusWatcher = Watcher<v1::WatchStatusResponse>;
using JobWatcher = Watcher<v1::WatchJobResponse>;

inline constexpr absl::Duration kPublishInterval = absl::Milliseconds(100);

class Publisher {
 public:
  explicit Publisher(int max_watches = Limits().watches)
      : max_watches_(static_cast<size_t>(max_watches)) {}

  // Both offer the present state at once, or end the watch with
  // RESOURCE_EXHAUSTED if there are max_watches already. A job that has ended
  // ends its watch.
  void AddStatusWatcher(std::shared_ptr<StatusWatcher> watcher,
                        const v1::WatchStatusRequest& request,
                        const StatusSource& source);
  // `job` is one of `state`'s.
  void AddJobWatcher(std::shared_ptr<JobWatcher> watcher, const State& state,
                     const Job& job);

  // Offers the state to watchers that have not seen it, unless it is too early;
  // to be called after every change, at NextDeadline, and when a decision has
  // waited for kJournalPatience.
  void Publish(const StatusSource& source);

  // When a change that was held back is due; InfiniteFuture if none is.
  [[nodiscard]] MonotonicTime NextDeadline() const { return due_; }

  // Ends all watches.
  void End(const absl::Status& status);

  [[nodiscard]] size_t watcher_count() const {
    return status_watchers_.size() + job_watchers_.size();
  }

 private:
  struct JobWatch {
    int64_t job_number;
    uint64_t revision;  // offered last
    std::shared_ptr<JobWatcher> watcher;
  };

  struct StatusWatch {
    StatusFilter filter;
    // Present if only changes are sent.
    std::optional<StatusChanges> changes;
    std::shared_ptr<StatusWatcher> watcher;
  };

  void DropGone();
  static void OfferStatus(const StatusSource& source,
                          const QueueOutlook& outlook, StatusWatch& watch);
  // Ends the watch, and returns true, if there are too many.
  template <typename Message>
  bool IsOneTooMany(Watcher<Message>& watcher);
  void NotePublished(const StatusSource& source);
  // Offers the job to the watch; false once it is over.
  static bool OfferJob(const State& state, const Job& job, JobWatch& watch);

  const size_t max_watches_;
  std::vector<StatusWatch> status_watchers_;
  std::vector<JobWatch> job_watchers_;
  uint64_t published_revision_ = 0;
  bool published_is_journal_slow_ = false;
  MonotonicTime not_before_;
  MonotonicTime due_ = MonotonicTime::InfiniteFuture();
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_PUBLISHER_H_
