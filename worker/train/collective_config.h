// CollectiveConfig is how a job's ranks reduce, in the engine's own terms.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_TRAIN_COLLECTIVE_CONFIG_H_
#define RINGMASTER_WORKER_TRAIN_COLLECTIVE_CONFIG_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/plan/collective_costs.h"
#include "common/plan/topology.h"
#include "common/tensor/dtype.h"
#include "common/transport/channel.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

namespace v1 {
class CollectiveSpec;
}  // namespace v1

struct CollectiveConfig {
  Algorithm algorithm = Algorithm::kAuto;
  // The best way to a peer that is tried.
  Transport best_transport = Transport::kSharedMemory;
  // What float32 elements travel as; none: as they are.
  std::optional<DType> wire = std::nullopt;
  int connections = 1;  // to each rank of another host

  friend bool operator==(const CollectiveConfig&,
                         const CollectiveConfig&) = default;
};

// What is left out is a CollectiveConfig's default.
//   INVALID_ARGUMENT  names the field with a value that this build does not know
[[nodiscard]] absl::StatusOr<CollectiveConfig> ParseCollective(
    const v1::CollectiveSpec& spec);

// Why its algorithm is not used among ranks of `topology`, in words; empty if it
// is, or none is asked for.
[[nodiscard]] std::string UnusableRemark(const CollectiveConfig& config,
                                         const Topology& topology);

// How ranks with `config` choose algorithms, by what all of them were told that
// collectives cost.
[[nodiscard]] AlgorithmPolicy PolicyOf(const CollectiveConfig& config,
                                       const MachineCosts& costs);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_COLLECTIVE_CONFIG_H_
