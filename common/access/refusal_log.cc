#include "common/access/refusal_log.h"

#include <string>
#include <utility>

#include "common/logging/logging.h"

namespace ringmaster {

void RefusalLog::Add(std::string_view what, const absl::Status& status) {
  int64_t others = 0;
  {
    MutexLock lock(mutex_);
    const MonotonicTime now = clock_.Now();
    if (now < next_line_) {
      ++unlogged_;
      return;
    }
    next_line_ = now + interval_;
    others = std::exchange(unlogged_, 0);
  }
  LogEvent(LogLevel::kWarning, event_,
           {{subject_, what},
            {"error", std::string(status.message())},
            {"others", others}});
}

}  // namespace ringmaster
