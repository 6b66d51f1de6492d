#include "common/clock/clock.h"

#include <chrono>

namespace ringmaster {
namespace {

using SteadyTime = std::chrono::time_point<std::chrono::steady_clock,
                                           std::chrono::nanoseconds>;

class SteadyClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return MonotonicTime::FromNanos(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }

  bool WaitOn(std::condition_variable& cv, std::unique_lock<std::mutex>& lock,
              MonotonicTime deadline) override {
    if (deadline == MonotonicTime::InfiniteFuture()) {
      cv.wait(lock);
      return true;
    }
    cv.wait_until(lock, SteadyTime(std::chrono::nanoseconds(deadline.nanos())));
    return Now() < deadline;
  }
};

}  // namespace

Clock& Clock::Real() {
  static SteadyClock clock;
  return clock;
}

}  // namespace ringmaster
