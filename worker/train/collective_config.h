// CollectiveConfig says how a job's ranks reduce, in the engine's own terms.
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
  // The type that float32 elements travel as; none: as they are.
  std::optional<DType> wire = std::nullopt;
  int connections = 1;  // to each rank of another host

  friend bool operator==(const CollectiveConfig&,
                         const CollectiveConfig&) = default;
};

// Parses `spec`; fields that are left out get CollectiveConfig's defaults.
//   INVALID_ARGUMENT  names the field whose value this build does not know
[[nodiscard]] absl::StatusOr<CollectiveConfig> ParseCollective(
    const v1::CollectiveSpec& spec);

// Returns the reason why the config's algorithm is not used among ranks of
// `topology`, in words; empty if it is used, or none is asked for.
[[nodiscard]] std::string UnusableRemark(const CollectiveConfig& config,
                                         const Topology& topology);

// Returns the policy by which ranks with `config` choose algorithms; all of
// them were told the same costs of collectives.
[[nodiscard]] AlgorithmPolicy PolicyOf(const CollectiveConfig& config,
                                       const MachineCosts& costs);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_COLLECTIVE_CONFIG_H_
