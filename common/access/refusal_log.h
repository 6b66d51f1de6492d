// RefusalLog logs calls or sessions that were refused, at most one line in a while:
// whoever is refused could fill a disk.
//
// Thread-safe.
#ifndef RINGMASTER_COMMON_ACCESS_REFUSAL_LOG_H_
#define RINGMASTER_COMMON_ACCESS_REFUSAL_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class RefusalLog {
 public:
  // Lines are events of that name; their field `subject` says what was refused.
  explicit RefusalLog(Clock& clock = Clock::Real(),
                      std::string_view event = "access.refused",
                      std::string_view subject = "method",
                      absl::Duration interval = absl::Seconds(1))
      : clock_(clock), event_(event), subject_(subject), interval_(interval) {}

  // Logs that `what` was refused, or counts it for the next line.
  void Add(std::string_view what, const absl::Status& status) EXCLUDES(mutex_);

 private:
  Clock& clock_;
  const std::string event_;
  const std::string subject_;
  const absl::Duration interval_;
  Mutex mutex_;
  MonotonicTime next_line_ GUARDED_BY(mutex_);
  // Since the last line.
  int64_t unlogged_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_ACCESS_REFUSAL_LOG_H_
