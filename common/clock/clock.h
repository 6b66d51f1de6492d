// Clock: the one source of monotonic time, for reading and for waiting.
//
// A thread that waits on a condition with a deadline waits through a Clock (see
// common/sync/mutex.h), so that FakeClock drives timeouts in tests without
// sleeping. Thread-safe.
#ifndef RINGMASTER_COMMON_CLOCK_CLOCK_H_
#define RINGMASTER_COMMON_CLOCK_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "common/clock/monotonic_time.h"

namespace ringmaster {

class Clock {
 public:
  virtual ~Clock() = default;

  [[nodiscard]] virtual MonotonicTime Now() const = 0;

  // Waits on `cv` with `lock` held until a notification, a spurious wake-up, or
  // until Now() >= deadline. Returns false iff the deadline has passed. Called
  // by CondVar; not meant for direct use.
  virtual bool WaitOn(std::condition_variable& cv,
                      std::unique_lock<std::mutex>& lock,
                      MonotonicTime deadline) = 0;

  // The machine's steady clock; lives as long as the process.
  static Clock& Real();
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CLOCK_CLOCK_H_
