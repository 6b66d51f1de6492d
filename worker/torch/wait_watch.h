// WaitWatch says when a rank has waited long for another, and when it goes on:
// a program that hangs tells where. Pure; thread-compatible.
#ifndef RINGMASTER_WORKER_TORCH_WAIT_WATCH_H_
#define RINGMASTER_WORKER_TORCH_WAIT_WATCH_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

class WaitWatch {
 public:
  // A wait of `patience` is told of, and again each time that it has doubled.
  WaitWatch(int rank, absl::Duration patience)
      : rank_(rank), patience_(patience) {}

  // Call it now and then with what the communicator does, and the name of the
  // operation. Returns the line to show; empty: there is nothing new.
  [[nodiscard]] std::string Look(const CollectiveProgress& progress,
                                 std::string_view operation, MonotonicTime now);

 private:
  const int rank_;
  const absl::Duration patience_;
  int64_t completed_ = -1;  // when it was last looked
  int awaited_ = -1;
  MonotonicTime since_;
  absl::Duration told_;  // zero: not yet
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_WAIT_WATCH_H_
