// The bounds of what a session says that follow from the job and its members.
// (Those that need no job are checked where messages are parsed.) docs/operations.md
// lists both.
//
// Pure. A message within its bounds costs a few comparisons: these run on every
// beat.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_MESSAGE_BOUNDS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_MESSAGE_BOUNDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// A number that is counted up, of a generation or of a job, is at most this much
// beyond the last one known: one a second for a century.
inline constexpr int64_t kMaxNumberJump = int64_t{1} << 32;

// Returns the last step that a member of `job` may report: the job's own last. A
// checkpoint may be of a later one, until it is known that the job goes on from an
// earlier step.
[[nodiscard]] int64_t LastStep(const Job& job);

// Returns whether `body`, from the session of `worker`, is within its bounds.
//   INVALID_ARGUMENT  the field, its value and its bound, to be said of the worker:
//                     "says beat.step 101; it must be in [0, 100]"
// A message about a generation that is over passes: it is stale, and is ignored.
// So does a beat with steps beyond the bound of a member that has not prepared: it
// still shows an earlier job.
[[nodiscard]] absl::Status CheckMessage(const State& state,
                                        const Worker& worker,
                                        const EventBody& body);
// The same of a hello: its generation; and, of a worker whose coordinator is this
// one, its steps.
[[nodiscard]] absl::Status CheckNumber(const State& state,
                                       const HelloReceived& hello);
[[nodiscard]] absl::Status CheckSteps(const State& state,
                                      const HelloReceived& hello);

// Returns true if the steps in `beat` are within their bounds.
[[nodiscard]] bool HasPossibleSteps(const Job& job, const BeatReceived& beat);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_MESSAGE_BOUNDS_H_
