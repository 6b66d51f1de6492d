// CoreTimer: has a core woken at its next deadline, by an event of virtual time.
//
// Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_CORE_TIMER_H_
#define RINGMASTER_TESTS_SIMULATOR_CORE_TIMER_H_

#include <algorithm>
#include <cstdint>

#include "common/clock/monotonic_time.h"
#include "tests/simulator/context.h"

namespace ringmaster::simulator {

class CoreTimer {
 public:
  // Its events are of `kind`, for the worker in `slot` (-1: the coordinator).
  CoreTimer(Context& context, EventKind kind, int slot)
      : context_(context), kind_(kind), slot_(slot) {}

  // The process is new, and has set nothing.
  void Reset() { at_ = 0; }

  // An event comes at `deadline`, or before it if one is set already.
  void Set(MonotonicTime deadline) {
    if (deadline == MonotonicTime::InfiniteFuture()) return;
    if (at_ != 0 && at_ <= deadline.nanos()) return;
    at_ = std::max(deadline.nanos(), context_.now);
    SimEvent event;
    event.kind = kind_;
    event.slot = static_cast<int8_t>(slot_);
    event.version = ++version_;
    context_.At(at_, event);
  }

  // The event of `version` came, and the core's deadline is now `deadline`:
  // whether that is reached. If it is not, the timer is set to it.
  [[nodiscard]] bool IsDue(uint32_t version, MonotonicTime deadline) {
    if (version != version_) return false;
    at_ = 0;
    if (deadline <= context_.Now()) return true;
    Set(deadline);
    return false;
  }

 private:
  Context& context_;
  const EventKind kind_;
  const int slot_;
  uint32_t version_ = 0;
  int64_t at_ = 0;  // 0: none
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_CORE_TIMER_H_
