// JobWatch follows one job in the background, across restarts of the
// coordinator.
//
// A thread of its own reads the stream of changes and keeps the newest; when
// the connection breaks it connects again, with growing pauses, for at most
// `reconnect_limit`. A first connection that fails ends the watch at once.
// Thread-safe. The destructor ends the calls and joins. `clock` and `bell` must
// outlive it.
#ifndef RINGMASTER_SERVER_CTL_CLIENT_JOB_WATCH_H_
#define RINGMASTER_SERVER_CTL_CLIENT_JOB_WATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/client.h"

namespace ringmaster::ctl {

// Returns true for errors that a coordinator causes while it is restarted.
[[nodiscard]] bool IsWorthARetry(const absl::Status& status);

struct JobWatchOptions {
  absl::Duration reconnect_limit = absl::Seconds(60);
};

// The state of the watched job at one moment.
struct WatchSnapshot {
  std::optional<v1::Job> job;  // unset before the first answer
  int64_t updates = 0;         // how many there were so far
  std::string lost;  // why there is no connection now; empty if there is one
  std::optional<absl::Status> end;  // set once over: OK if the job ended, else
                                    // what prevents watching it
};

class JobWatch {
 public:
  // Follows `job` (id or name); rings `bell` at each change of the snapshot.
  JobWatch(std::unique_ptr<Client> client, std::string job,
           JobWatchOptions options, Clock& clock, Bell& bell);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  [[nodiscard]] WatchSnapshot Snapshot() const;

 private:
  void Run();
  absl::Status FollowOnce();
  void Publish(const v1::Job& job);
  void NoteLost(const absl::Status& status);
  void End(absl::Status status);
  [[nodiscard]] bool HasJobEnded() const;
  // Waits for `pause`; false if the watch is being stopped.
  [[nodiscard]] bool Pause(absl::Duration pause);

  const std::unique_ptr<Client> client_;
  const std::string job_;
  const JobWatchOptions options_;
  Clock& clock_;
  Bell& bell_;

  mutable Mutex mutex_;
  CondVar stopped_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  WatchSnapshot snapshot_ GUARDED_BY(mutex_);

  std::thread follower_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_CLIENT_JOB_WATCH_H_
