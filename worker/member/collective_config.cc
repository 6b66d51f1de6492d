#include "worker/member/collective_config.h"

#include "absl/strings/str_cat.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
CollectiveConfig CollectiveConfigOf(const v1::CollectiveSpec& spec) {
  CollectiveConfig config;
  config.algorithm = OwnOf(kAlgorithmPairs, spec.algorithm());
  config.best_transport = OwnOf(kTransportPairs, spec.transport());
  if (spec.wire() != v1::COLLECTIVE_WIRE_UNSPECIFIED)
    config.wire = OwnOf(kWirePairs, spec.wire());
  if (spec.connections() > 0) config.connections = spec.connections();
  return config;
}

std::string UnusableRemark(const CollectiveConfig& config,
                           const Topology& topology) {
  if (config.algorithm == Algorithm::kAuto || topology.world_size() < 2 ||
      IsUsable(config.algorithm, topology)) {
    return "";
  }
  return absl::StrCat(AlgorithmName(config.algorithm),
                      " needs connections that ", topology.world_size(),
                      " ranks on ", topology.host_count(),
                      " hosts do not have; chosen by costs instead");
}

AlgorithmPolicy PolicyOf(const CollectiveConfig& config,
                         const MachineCosts& costs) {
  return {.algorithm = config.algorithm,
          .costs = CostsOver(config.best_transport, costs)};
}

}  // namespace ringmaster
