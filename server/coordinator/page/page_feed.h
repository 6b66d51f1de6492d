// PageFeed looks at a runtime twice a second and keeps what viewers ask for: the
// newest status, the last events, and the curves of jobs.
//
// The runtime's executor only copies its state; texts are made on the threads that
// want them, those of the status and of jobs once for all viewers. So one more viewer
// costs the coordinator's decisions nothing.
// Thread-safe. The runtime outlives it.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_FEED_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "common/sync/mutex.h"
#include "common/sync/periodic_thread.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/page/history.h"
#include "server/coordinator/page/history_file.h"
#include "server/coordinator/page/request_rules.h"

namespace ringmaster::coordinator {

class CoordinatorRuntime;

inline constexpr absl::Duration kLookInterval = absl::Milliseconds(500);
// The events that a viewer can get; older ones are dropped.
inline constexpr int kMaxPageEvents = 2000;

// A status, and its JSON once somebody wants it. Thread-safe.
class PageStatus {
 public:
  explicit PageStatus(v1::Status status) : status_(std::move(status)) {}

  [[nodiscard]] const v1::Status& status() const { return status_; }
  // As `ringctl -o json status` writes it, in one line.
  [[nodiscard]] absl::StatusOr<std::string> Json() const EXCLUDES(mutex_);

 private:
  const v1::Status status_;
  mutable Mutex mutex_;
  mutable std::string json_ GUARDED_BY(mutex_);
};

// A job's JSON, made once for all who want it within kLookInterval. Thread-safe.
class JobText {
 public:
  // Returns the text; makes it by `make` if it is too old, or waits for whoever is
  // making it.
  //   UNAVAILABLE  who makes it has not done so in time
  // Other errors are those of `make`.
  [[nodiscard]] absl::StatusOr<std::string> Get(
      Clock& clock, const std::function<absl::StatusOr<std::string>()>& make)
      EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar made_;
  bool is_being_made_ GUARDED_BY(mutex_) = false;
  std::optional<absl::StatusOr<std::string>> text_ GUARDED_BY(mutex_);
  MonotonicTime time_ GUARDED_BY(mutex_);
};

// News that a viewer has not seen yet.
struct PageNews {
  std::shared_ptr<const PageStatus> status = {};  // null: it has the newest
  v1::ListEventsResponse events = {};             // empty: it has them all
  StreamPosition position = {};                   // once it has these
};

class PageFeed {
 public:
  // Curves go on from `history_file`, and are kept there; empty: nowhere.
  explicit PageFeed(CoordinatorRuntime& runtime,
                    const std::string& history_file = "",
                    Clock& clock = Clock::Real());

  // Returns what came after `seen`; waits until there is any, `deadline`, or Close. Events of
  // another coordinator process are told from the first that is kept.
  [[nodiscard]] std::optional<PageNews> After(const StreamPosition& seen,
                                              MonotonicTime deadline)
      EXCLUDES(mutex_);

  // The same without waiting; no events if there is nothing new.
  [[nodiscard]] PageNews Now(const StreamPosition& seen) const EXCLUDES(mutex_);

  // Returns the newest status, and waits for the first until `deadline` or Close.
  // Null: there is none.
  [[nodiscard]] std::shared_ptr<const PageStatus> Status(MonotonicTime deadline)
      EXCLUDES(mutex_);

  // {"job": ..., "explain": ..., "curves": ...}: all about the job, at most kLookInterval old; explained unless it runs or has ended.
  //   NOT_FOUND    no such job, or it is no longer kept
  //   UNAVAILABLE  the coordinator did not answer in time
  [[nodiscard]] absl::StatusOr<std::string> JobJson(const std::string& job)
      EXCLUDES(mutex_);

  // Ends all waiting, now and later.
  void Close() EXCLUDES(mutex_);

 private:
  struct Look {
    std::optional<v1::Status> status;
    google::protobuf::RepeatedPtrField<v1::Event> events;
  };

  struct WantedJob {
    std::shared_ptr<JobText> text = std::make_shared<JobText>();
    MonotonicTime time = {};  // when somebody wanted it last
  };

  void LookAtRuntime() EXCLUDES(mutex_);
  void Take(Look look) EXCLUDES(mutex_);
  // For the HistoryWriter.
  [[nodiscard]] std::optional<v1::PageHistory> UnsavedHistory()
      EXCLUDES(mutex_);
  // The place of the job's text; forgets those that nobody wants any more.
  [[nodiscard]] std::shared_ptr<JobText> TextOf(const std::string& job)
      EXCLUDES(mutex_);
  // JobJson, anew.
  [[nodiscard]] absl::StatusOr<std::string> MakeJobJson(const std::string& job)
      EXCLUDES(mutex_);
  [[nodiscard]] bool HasNews(const StreamPosition& seen) const REQUIRES(mutex_);
  [[nodiscard]] PageNews NewsAfter(const StreamPosition& seen) const
      REQUIRES(mutex_);

  CoordinatorRuntime& runtime_;
  Clock& clock_;
  const uint64_t incarnation_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool is_closed_ GUARDED_BY(mutex_) = false;
  // Its revision counts the statuses that were taken, for one may be newer than the
  // last although nothing but ages has changed.
  StreamPosition newest_ GUARDED_BY(mutex_);
  int64_t state_revision_ GUARDED_BY(mutex_) = -1;  // status_'s own
  std::shared_ptr<const PageStatus> status_ GUARDED_BY(mutex_);
  MonotonicTime status_time_ GUARDED_BY(mutex_);
  std::deque<v1::Event> events_ GUARDED_BY(mutex_);
  History history_ GUARDED_BY(mutex_);
  int64_t saved_revision_ GUARDED_BY(mutex_) = 0;  // of history_
  std::map<std::string, WantedJob> wanted_jobs_ GUARDED_BY(mutex_);

  // The last members: they use the others.
  PeriodicThread thread_;
  HistoryWriter writer_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_FEED_H_
