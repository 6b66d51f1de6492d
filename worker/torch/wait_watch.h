// WaitWatch says when a rank has waited long for another, and when it goes on:
// a program that hangs tells where. Pure; thread-compatible.
#ifndef RINGMASTER_WORKER_TORCH_WAIT_WATCH_H_
#define RINGMASTER_WORKER_TORCH_WAIT_WATCH_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"

namespace ringmaster {

// What a rank does at a moment.
struct RankActivity {
  int64_t done = 0;            // operations; a larger number is progress
  int awaited_rank = -1;       // -1: it waits for none
  std::string operation = {};  // that it waits in
};

class WaitWatch {
 public:
  // A wait of `patience` is told of, and again each time that it has doubled.
  WaitWatch(int rank, absl::Duration patience)
      : rank_(rank), patience_(patience) {}

  // Call it now and then. Returns the line to show; empty: there is nothing new.
  [[nodiscard]] std::string Look(const RankActivity& activity,
                                 MonotonicTime now);

 private:
  const int rank_;
  const absl::Duration patience_;
  int64_t done_ = -1;  // when it was last looked
  MonotonicTime since_;
  absl::Duration told_;  // zero: not yet
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_WAIT_WATCH_H_
