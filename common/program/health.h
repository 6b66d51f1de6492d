// Health is what a program says of itself to probes.
#ifndef RINGMASTER_COMMON_PROGRAM_HEALTH_H_
#define RINGMASTER_COMMON_PROGRAM_HEALTH_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ringmaster {

struct Health {
  // OK while the thread that does the program's work answers; otherwise it
  // hangs, and only a restart helps.
  absl::Status live = {};
  // OK while it can do that work; otherwise what is missing. Never OK where
  // `live` is not.
  absl::Status ready = {};

  // The health of a program that does not answer, for the given reason.
  [[nodiscard]] static Health Stuck(const absl::Status& why) {
    return {.live = why, .ready = why};
  }
};

// How often a program finds out about its health, and how long it waits for an
// answer.
inline constexpr absl::Duration kHealthInterval = absl::Seconds(1);
inline constexpr absl::Duration kHealthPatience = absl::Seconds(5);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROGRAM_HEALTH_H_
