#include "worker/train/collective_config.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

absl::Status Unknown(const char* field, int value) {
  return absl::InvalidArgumentError(
      absl::StrCat("collective.", field, " is ", value,
                   ", which this worker does not know; it may be older than "
                   "the coordinator"));
}

absl::StatusOr<Algorithm> AlgorithmOf(v1::CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case v1::COLLECTIVE_ALGORITHM_UNSPECIFIED:
      return Algorithm::kAuto;
    case v1::COLLECTIVE_ALGORITHM_RING:
      return Algorithm::kRing;
    case v1::COLLECTIVE_ALGORITHM_HALVING_DOUBLING:
      return Algorithm::kHalvingDoubling;
    case v1::COLLECTIVE_ALGORITHM_DIRECT:
      return Algorithm::kDirect;
    case v1::COLLECTIVE_ALGORITHM_EXCHANGE:
      return Algorithm::kExchange;
    case v1::COLLECTIVE_ALGORITHM_GATHER_BROADCAST:
      return Algorithm::kGatherBroadcast;
    case v1::COLLECTIVE_ALGORITHM_HIERARCHICAL:
      return Algorithm::kHierarchical;
    default:
      return Unknown("algorithm", algorithm);
  }
}

absl::StatusOr<Transport> TransportOf(v1::CollectiveTransport transport) {
  switch (transport) {
    case v1::COLLECTIVE_TRANSPORT_UNSPECIFIED:
    case v1::COLLECTIVE_TRANSPORT_SHARED_MEMORY:
      return Transport::kSharedMemory;
    case v1::COLLECTIVE_TRANSPORT_UNIX:
      return Transport::kUnix;
    case v1::COLLECTIVE_TRANSPORT_TCP:
      return Transport::kTcp;
    default:
      return Unknown("transport", transport);
  }
}

absl::StatusOr<std::optional<DType>> WireOf(v1::CollectiveWire wire) {
  switch (wire) {
    case v1::COLLECTIVE_WIRE_UNSPECIFIED:
      return std::nullopt;
    case v1::COLLECTIVE_WIRE_FLOAT16:
      return DType::kFloat16;
    case v1::COLLECTIVE_WIRE_BFLOAT16:
      return DType::kBFloat16;
    default:
      return Unknown("wire", wire);
  }
}

}  // namespace

absl::StatusOr<CollectiveConfig> ParseCollective(
    const v1::CollectiveSpec& spec) {
  CollectiveConfig config;
  ASSIGN_OR_RETURN(config.algorithm, AlgorithmOf(spec.algorithm()));
  ASSIGN_OR_RETURN(config.best_transport, TransportOf(spec.transport()));
  ASSIGN_OR_RETURN(config.wire, WireOf(spec.wire()));
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
