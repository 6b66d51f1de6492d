// The states of a job's commands, as its ranks tell each other of them, and the
// view (worker/views) that follows from them. Pure.
#ifndef RINGMASTER_WORKER_EXTERNAL_COMMAND_STATES_H_
#define RINGMASTER_WORKER_EXTERNAL_COMMAND_STATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/views/view.h"

namespace ringmaster {

// A rank's command. Numbers, since ranks meet over the largest of them: whoever
// holds the command knows more than those who do not.
namespace command_state {
inline constexpr int64_t kNowhere =
    0;  // no member holds it: its worker is lost
inline constexpr int64_t kLives = 1;
inline constexpr int64_t kEnded = 2;   // with exit code 0
inline constexpr int64_t kFailed = 3;  // with another one
// And the number of the signal.
inline constexpr int64_t kKilled = 1000;
}  // namespace command_state

// Returns the view of those that live, of `states` by rank, after `before`.
[[nodiscard]] View ViewOf(const std::vector<int64_t>& states,
                          const View& before, int64_t number);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_COMMAND_STATES_H_
