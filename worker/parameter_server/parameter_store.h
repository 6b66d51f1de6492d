// ParameterStore is what small clients see of the shards that a process holds.
//
// Thread-safe.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_PARAMETER_STORE_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_PARAMETER_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "common/plan/partition.h"

namespace ringmaster {

// Shards that are primary here. Ranges are of the job's parameters as a whole,
// ascending.
struct StoredShards {
  std::string job_id;
  int64_t generation = 0;
  int64_t step = 0;  // the newest that all of them have
  std::vector<ElemRange> ranges;
};

struct StoredElements {
  int64_t step = 0;
  std::vector<float> elements;  // of all ranges asked for, one after the other
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  //   FAILED_PRECONDITION  no job has shards here
  //   UNAVAILABLE          between two generations, or they are being loaded
  //   DEADLINE_EXCEEDED
  [[nodiscard]] virtual absl::StatusOr<StoredShards> shards(
      MonotonicTime deadline) = 0;

  // The elements of `ranges`, in a bsp job all as of one step.
  //   OUT_OF_RANGE         not all of them are here
  //   FAILED_PRECONDITION  no job has shards here
  //   UNAVAILABLE          as above
  //   DEADLINE_EXCEEDED
  [[nodiscard]] virtual absl::StatusOr<StoredElements> Read(
      std::vector<ElemRange> ranges, MonotonicTime deadline) = 0;

  // Makes an update with `gradient` of the elements from `begin` on, as with
  // one worker's push, and returns the step that it counts for.
  //   OUT_OF_RANGE         not whole buckets of one shard that is here
  //   INVALID_ARGUMENT     not finite
  //   FAILED_PRECONDITION  no such job has shards here, or it is a bsp job
  //   ABORTED              another generation than `generation` is on
  //   UNAVAILABLE, DEADLINE_EXCEEDED  as above; the update may have been made
  //   after all if there is a backup that did not get it in time
  [[nodiscard]] virtual absl::StatusOr<int64_t> Push(
      const std::string& job_id, int64_t generation, int64_t begin,
      std::vector<float> gradient, MonotonicTime deadline) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_PARAMETER_STORE_H_
