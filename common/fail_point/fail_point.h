// FAIL_POINT("name"): a named place where tests make the program fail.
//
// Compiled into every build; when nothing is armed, passing one costs a relaxed
// load and a branch. A test arms one at run time, in this process with Arm, or
// in a child process through the environment:
//   RINGMASTER_FAIL_POINTS="journal.commit=error@3;collective.send=crash"
// Actions:
//   error  the macro's Status is UNAVAILABLE "fail point NAME"
//   crash  the process ends at once by SIGKILL
//   hang   blocks until disarmed, then passes with OK
//   off    counts passes, nothing else
// `@K` lets the first K-1 passes go by; from the K-th on, every pass acts.
// Names are lower_snake, dotted by area. Several places may share a name; they
// share its count of passes.
//
// Example:  RETURN_IF_ERROR(FAIL_POINT("journal.commit"));
// Thread-safe. Do not pass one while holding a lock: `hang` would keep it.
// The idea follows FreeBSD's fail(9).
#ifndef RINGMASTER_COMMON_FAIL_POINT_FAIL_POINT_H_
#define RINGMASTER_COMMON_FAIL_POINT_FAIL_POINT_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster {

class FailPoint {
 public:
  enum class Action { kOff, kError, kCrash, kHang };

  // Registers a point for good; made only by the macro, as a static.
  explicit FailPoint(const char* name);
  FailPoint(const FailPoint&) = delete;
  FailPoint& operator=(const FailPoint&) = delete;

  // Returns the status that the macro evaluates to.
  absl::Status Pass() {
    if (!is_armed_.load(std::memory_order_relaxed)) [[likely]] {
      return absl::OkStatus();
    }
    return PassArmed();
  }

  // Arms `name` from its `at_pass`-th pass on (1 = the next), replacing what
  // was armed there. Works before the point was first passed.
  static void Arm(std::string_view name, Action action, int64_t at_pass = 1);
  // Disarms `name`, or all points; releases threads that hang there.
  static void Disarm(std::string_view name);
  static void DisarmAll();

  // Arms the points in `text`, which has the form above; "" arms nothing.
  // INVALID_ARGUMENT names the malformed part, and nothing is armed then.
  [[nodiscard]] static absl::Status ArmFromText(std::string_view text);
  // ArmFromText of RINGMASTER_FAIL_POINTS; binaries call it once at the start.
  [[nodiscard]] static absl::Status ArmFromEnvironment();

  // Names of the points registered so far, sorted.
  [[nodiscard]] static std::vector<std::string> Names();
  // Passes of `name` since it was armed; 0 if it is not armed.
  [[nodiscard]] static int64_t PassCount(std::string_view name);
  // Threads that hang at `name` now.
  [[nodiscard]] static int HangingCount(std::string_view name);

 private:
  friend class FailPointRegistry;
  absl::Status PassArmed();

  const char* const name_;
  std::atomic<bool> is_armed_{false};
};

// A static per call site; the lambda gives it a scope of its own inside an
// expression. `name` is a string literal.
#define FAIL_POINT(name)                            \
  ([]() -> ::absl::Status {                         \
    static ::ringmaster::FailPoint rm_point_(name); \
    return rm_point_.Pass();                        \
  }())

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FAIL_POINT_FAIL_POINT_H_
