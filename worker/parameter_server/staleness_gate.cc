#include "worker/parameter_server/staleness_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {

StalenessGate::StalenessGate(int workers, int buckets,
                             std::optional<int64_t> staleness, int64_t start)
    : staleness_(staleness),
      workers_(static_cast<size_t>(workers),
               {.clock = start,
                .pushed_step =
                    std::vector<int64_t>(static_cast<size_t>(buckets), start)}),
      slowest_(start) {}

absl::Status StalenessGate::Check(int worker, int bucket, int64_t step) const {
  const Worker& pusher = workers_[static_cast<size_t>(worker)];
  if (step == pusher.clock + 1 &&
      pusher.pushed_step[static_cast<size_t>(bucket)] < step)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", worker, " pushed step ", step, " of the shard's bucket ", bucket,
      "; of it, step ", pusher.clock + 1, " comes next, once"));
}

absl::Status StalenessGate::Push(int worker, int bucket, int64_t step) {
  RETURN_IF_ERROR(Check(worker, bucket, step));
  Worker& pusher = workers_[static_cast<size_t>(worker)];
  pusher.pushed_step[static_cast<size_t>(bucket)] = step;
  if (++pusher.pushed_count < static_cast<int>(pusher.pushed_step.size()))
    return absl::OkStatus();
  pusher.pushed_count = 0;
  ++pusher.clock;
  FindSlowest();
  return absl::OkStatus();
}

void StalenessGate::Leave(int worker) {
  workers_[static_cast<size_t>(worker)].has_left = true;
  FindSlowest();
}

void StalenessGate::NoteAnswer(int bucket, int64_t step) {
  // A clock stands still until the last bucket of a step; measured against it,
  // a worker would be ahead of itself.
  int64_t slowest = step;
  for (const Worker& worker : workers_) {
    if (worker.has_left) continue;
    slowest =
        std::min(slowest, worker.pushed_step[static_cast<size_t>(bucket)]);
  }
  const int64_t ahead = std::min<int64_t>(
      step - slowest, static_cast<int64_t>(kStalenessBins) - 1);
  ++counts_[static_cast<size_t>(ahead)];
}

void StalenessGate::FindSlowest() {
  std::optional<int64_t> slowest;
  for (const Worker& worker : workers_) {
    if (!worker.has_left)
      slowest = std::min(slowest.value_or(worker.clock), worker.clock);
  }
  // Once all have left, there is nobody to wait for: where the last was counts.
  slowest_ = std::max(slowest_, slowest.value_or(slowest_));
}

}  // namespace ringmaster
