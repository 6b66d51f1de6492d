// CollectiveConfig says how a job's ranks reduce, in the engine's own terms.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_MEMBER_COLLECTIVE_CONFIG_H_
#define RINGMASTER_WORKER_MEMBER_COLLECTIVE_CONFIG_H_

#include <optional>
#include <string>

#include "common/plan/collective_costs.h"
#include "common/plan/topology.h"
#include "common/protocol/enum_pairs.h"
#include "common/tensor/dtype.h"
#include "common/transport/channel.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

struct CollectiveConfig {
  Algorithm algorithm = Algorithm::kAuto;
  // The best transport to try.
  Transport best_transport = Transport::kSharedMemory;
  // The type that float32 elements are sent as; nullopt: as they are.
  std::optional<DType> wire = std::nullopt;
  int connections = 1;  // to each rank of another host

  friend bool operator==(const CollectiveConfig&,
                         const CollectiveConfig&) = default;
};

// Values of the protocol and ours; a transport or wire that is left open has
// none.
inline constexpr EnumPair<v1::CollectiveAlgorithm, Algorithm>
    kAlgorithmPairs[] = {
        {v1::COLLECTIVE_ALGORITHM_UNSPECIFIED, Algorithm::kAuto},
        {v1::COLLECTIVE_ALGORITHM_RING, Algorithm::kRing},
        {v1::COLLECTIVE_ALGORITHM_HALVING_DOUBLING,
         Algorithm::kHalvingDoubling},
        {v1::COLLECTIVE_ALGORITHM_DIRECT, Algorithm::kDirect},
        {v1::COLLECTIVE_ALGORITHM_EXCHANGE, Algorithm::kExchange},
        {v1::COLLECTIVE_ALGORITHM_GATHER_BROADCAST,
         Algorithm::kGatherBroadcast},
        {v1::COLLECTIVE_ALGORITHM_HIERARCHICAL, Algorithm::kHierarchical}};
inline constexpr EnumPair<v1::CollectiveTransport, Transport>
    kTransportPairs[] = {
        {v1::COLLECTIVE_TRANSPORT_SHARED_MEMORY, Transport::kSharedMemory},
        {v1::COLLECTIVE_TRANSPORT_UNIX, Transport::kUnix},
        {v1::COLLECTIVE_TRANSPORT_TCP, Transport::kTcp}};
inline constexpr EnumPair<v1::CollectiveWire, DType> kWirePairs[] = {
    {v1::COLLECTIVE_WIRE_FLOAT16, DType::kFloat16},
    {v1::COLLECTIVE_WIRE_BFLOAT16, DType::kBFloat16}};

// Returns `spec`, which keeps its rules, in the engine's terms; what it leaves
// open has CollectiveConfig's default.
[[nodiscard]] CollectiveConfig CollectiveConfigOf(
    const v1::CollectiveSpec& spec);

// Returns the reason why the config's algorithm is not used among ranks of
// `topology`, in words; empty if it is used, or none is asked for.
[[nodiscard]] std::string UnusableRemark(const CollectiveConfig& config,
                                         const Topology& topology);

// Returns the policy by which ranks with `config` choose algorithms; all of
// them were given the same costs of collectives.
[[nodiscard]] AlgorithmPolicy PolicyOf(const CollectiveConfig& config,
                                       const MachineCosts& costs);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_COLLECTIVE_CONFIG_H_
