#include "worker/parameter_server/wait_shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ringmaster {
namespace {

constexpr absl::Duration kMemory = absl::Seconds(10);

}  // namespace

void WaitShares::Note(MonotonicTime now,
                      absl::Span<const absl::Duration> waited) {
  const absl::Duration passed =
      last_.has_value() ? now - *last_ : absl::ZeroDuration();
  if (last_.has_value() && passed <= absl::ZeroDuration()) return;
  last_ = now;
  waits_.resize(std::max(waits_.size(), waited.size()));
  // The weights of intervals add up alike, however they are cut.
  const double new_weight = 1 - std::exp(-absl::FDivDuration(passed, kMemory));
  for (size_t rank = 0; rank < waited.size(); ++rank) {
    Wait& wait = waits_[rank];
    if (passed > absl::ZeroDuration()) {
      const double share =
          absl::FDivDuration(waited[rank] - wait.total, passed);
      wait.share += new_weight * (std::clamp(share, 0.0, 1.0) - wait.share);
    }
    wait.total = waited[rank];
  }
}

WaitShares::Most WaitShares::most() const {
  Most most;
  for (size_t rank = 0; rank < waits_.size(); ++rank) {
    if (waits_[rank].share <= most.share) continue;
    most = {static_cast<int>(rank), waits_[rank].share};
  }
  return most;
}

}  // namespace ringmaster
