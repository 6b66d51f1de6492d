// The requests of small clients for a generation's shards (parameter_store.h),
// done while nobody else touches them.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_HOST_STORE_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_HOST_STORE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/partition.h"
#include "worker/parameter_server/host_run.h"
#include "worker/parameter_server/parameter_store.h"

namespace ringmaster {

// Those of all lanes of a host.
using HostRuns = std::vector<HostRun*>;

// The newest step that all of their shards have.
[[nodiscard]] int64_t CompleteStepOf(const HostRuns& runs);

// The shards that are primary here, by their first element. UNAVAILABLE: they
// are still being loaded.
[[nodiscard]] absl::StatusOr<std::vector<ElemRange>> StoredRanges(
    const HostRuns& runs);

// Errors as of ParameterStore::Read.
[[nodiscard]] absl::StatusOr<StoredElements> ReadElements(
    const HostRuns& runs, const std::vector<ElemRange>& ranges);

// A small client's gradient on its way into the parameters.
class OutsidePush {
 public:
  OutsidePush(int64_t begin, std::vector<float> gradient)
      : begin_(begin), gradient_(std::move(gradient)) {}

  // Does what can be done now, on the thread that serves `run`; nothing: to be
  // called again. It is done once the backup, if there is one, has the update
  // too. Errors as of ParameterStore::Push; after OUT_OF_RANGE another run may
  // be asked, nothing having been done.
  [[nodiscard]] std::optional<absl::Status> Advance(HostRun& run);

 private:
  // One that the gradient is of.
  struct Bucket {
    int index = 0;  // in the shard
    absl::Span<const float> gradient;
    int64_t updates = -1;  // that it had with this one; -1: not made yet
  };
  [[nodiscard]] absl::Status Find(HostRun& run);
  [[nodiscard]] absl::Status AdvanceBucket(Bucket& bucket);
  [[nodiscard]] bool IsDone(const Bucket& bucket) const;

  const int64_t begin_;
  const std::vector<float> gradient_;
  ShardRun* shard_ = nullptr;  // null: not found yet
  std::vector<Bucket> buckets_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_HOST_STORE_H_
