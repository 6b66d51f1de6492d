// PlanCache turns requests into the plans that the engine executes, once for
// each kind of request: training repeats the same collectives step after step.
//
// Thread-compatible.
#ifndef RINGMASTER_WORKER_COLLECTIVE_PLAN_CACHE_H_
#define RINGMASTER_WORKER_COLLECTIVE_PLAN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/topology.h"
#include "common/reduction/reduction_kernels.h"
#include "worker/collective/communicator.h"
#include "worker/collective/cost_model.h"
#include "worker/collective/schedule.h"

namespace ringmaster {

// The operations of one kind with one peer, to be done in this order.
struct OperationQueue {
  enum class Kind : uint8_t { kSend, kReceive, kLocal };
  struct Item {
    Operation operation;
    const OperationQueue* after = nullptr;  // null: begins at once
    size_t place = 0;                       // in the schedule
  };
  Kind kind = Kind::kSend;
  int peer = -1;
  std::vector<Item> items;
  // While the engine runs it: items done, and whether the next has begun.
  size_t done = 0;
  bool has_begun = false;

  [[nodiscard]] bool is_done() const { return done == items.size(); }
  // The operation of the first item that is not done. Requires !is_done().
  [[nodiscard]] const Operation& current() const {
    return items[done].operation;
  }
  [[nodiscard]] size_t place() const { return items[done].place; }
};

struct CollectivePlan {
  // The queues with one peer; null where there is none.
  struct Pair {
    int peer = -1;
    OperationQueue* send = nullptr;
    OperationQueue* receive = nullptr;
  };
  Algorithm algorithm = Algorithm::kRing;
  // In the order in which the schedule first mentions them.
  std::vector<std::unique_ptr<OperationQueue>> queues;
  std::vector<Pair> pairs;
  size_t operation_count = 0;
  int64_t scratch_bytes = 0;
  ReductionKernels kernels;
};

// Returns KernelsFor the dtypes and reduction of `request`.
[[nodiscard]] absl::StatusOr<ReductionKernels> KernelsOf(
    const CollectiveRequest& request);

// The largest payload of a frame: large enough that the costs of a frame
// vanish, small enough to stay in a cache between the wire and the sum.
inline constexpr int64_t kSegmentBytes = 256 << 10;

class PlanCache {
 public:
  // The most operations kept, about 80 bytes each; before there are more, all
  // plans are forgotten.
  static constexpr size_t kMaxOperations = 1 << 20;

  PlanCache(int rank, const Topology& topology, const AlgorithmPolicy& policy)
      : rank_(rank), topology_(topology), policy_(policy) {}

  // The plan of `request`, with no queue begun; valid until the next call.
  // Requires that the algorithm, if it is not kAuto, IsUsable.
  //   INVALID_ARGUMENT  kernels that do not exist (KernelsFor)
  [[nodiscard]] absl::StatusOr<CollectivePlan*> Find(
      const CollectiveRequest& request);

 private:
  using Key = std::tuple<CollectiveOp, Algorithm, Reduction, DType, DType,
                         int64_t, int, int>;

  [[nodiscard]] absl::StatusOr<std::unique_ptr<CollectivePlan>> Make(
      const CollectiveRequest& request) const;

  const int rank_;
  const Topology topology_;
  const AlgorithmPolicy policy_;
  size_t operation_count_ = 0;
  std::map<Key, std::unique_ptr<CollectivePlan>> plans_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_PLAN_CACHE_H_
