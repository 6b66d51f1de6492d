// What small clients ask of a generation's shards (parameter_store.h), done on
// the thread that serves them.
#ifndef RINGMASTER_SERVER_PARAMETER_SERVER_HOST_STORE_H_
#define RINGMASTER_SERVER_PARAMETER_SERVER_HOST_STORE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/partition.h"
#include "server/parameter_server/host_run.h"
#include "server/parameter_server/parameter_store.h"

namespace ringmaster {

// The shards that are primary here, by their first element. UNAVAILABLE: they
// are still being loaded.
[[nodiscard]] absl::StatusOr<std::vector<ElemRange>> StoredRanges(
    const HostRun& run);

// Errors as of ParameterStore::Read.
[[nodiscard]] absl::StatusOr<StoredElements> ReadElements(
    const HostRun& run, const std::vector<ElemRange>& ranges);

// A small client's gradient on its way into the parameters.
class OutsidePush {
 public:
  OutsidePush(int64_t begin, std::vector<float> gradient)
      : begin_(begin), gradient_(std::move(gradient)) {}

  // Does what can be done now; nothing: to be called again. It is done once the
  // backup, if there is one, has the update too. Errors as of
  // ParameterStore::Push.
  [[nodiscard]] std::optional<absl::Status> Advance(HostRun& run);
  // The step that it counts for, once it is done.
  [[nodiscard]] int64_t step() const { return step_; }

 private:
  // The buckets that the gradient is of.
  [[nodiscard]] absl::Status Find(const HostRun& run);

  const int64_t begin_;
  const std::vector<float> gradient_;
  ShardRun* shard_ = nullptr;  // null: not found yet
  int first_bucket_ = 0;       // in the shard
  int bucket_count_ = 0;
  bool is_made_ = false;
  int64_t step_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_PARAMETER_SERVER_HOST_STORE_H_
