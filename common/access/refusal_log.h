// RefusalLog logs calls that were refused, at most one line a second: whoever is refused
// could fill a disk.
//
// Thread-safe.
#ifndef RINGMASTER_COMMON_ACCESS_REFUSAL_LOG_H_
#define RINGMASTER_COMMON_ACCESS_REFUSAL_LOG_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class RefusalLog {
 public:
  explicit RefusalLog(Clock& clock = Clock::Real()) : clock_(clock) {}

  // Logs `access.refused`, or counts it for the next line.
  void Add(std::string_view method, const absl::Status& status)
      EXCLUDES(mutex_);

 private:
  Clock& clock_;
  Mutex mutex_;
  MonotonicTime next_line_ GUARDED_BY(mutex_);
  // Since the last line.
  int64_t unlogged_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_ACCESS_REFUSAL_LOG_H_
