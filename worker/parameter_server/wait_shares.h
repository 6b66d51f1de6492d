// WaitShares finds the rank that a host of shards waits for most: for which share
// of the time, over about the last ten seconds.
//
// Thread-compatible.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_WAIT_SHARES_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_WAIT_SHARES_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/monotonic_time.h"

namespace ringmaster {

class WaitShares {
 public:
  struct Most {
    int rank = -1;  // -1: nobody was waited for
    double share = 0;
  };

  // Takes up what was waited for each rank until `now`, in all; the first call
  // only says what it counts from. May come at any intervals.
  void Note(MonotonicTime now, absl::Span<const absl::Duration> waited);

  [[nodiscard]] Most most() const;

 private:
  struct Wait {
    absl::Duration total;  // at the last call
    double share = 0;
  };
  std::optional<MonotonicTime> last_;
  std::vector<Wait> waits_;  // by rank
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_WAIT_SHARES_H_
