#include "server/coordinator/core/account/queue_use.h"

#include <cmath>
#include <numbers>

#include "absl/time/time.h"
#include "server/coordinator/core/placement/quotas.h"

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kLeast = absl::Milliseconds(100);

}  // namespace

void AccountUse(State& state, MonotonicTime now) {
  if (state.queues.empty()) state.used_to = now;
  if (now - state.used_to < kLeast) return;
  const double half_lives =
      absl::FDivDuration(now - state.used_to, state.half_life);
  state.used_to = now;
  const double kept = std::exp2(-half_lives);
  // The integral of what one worker's use is worth at the end.
  const double added =
      (1 - kept) / std::numbers::ln2 * absl::ToDoubleSeconds(state.half_life);
  const auto figures = FiguresOfQueues(state);
  for (auto& [name, queue] : state.queues) {
    queue.used = queue.used * kept + figures.at(name).workers * added;
  }
}

}  // namespace ringmaster::coordinator
