// The algorithms of all-reduce and their names; see schedule.h for what each
// does. Pure.
#ifndef RINGMASTER_WORKER_COLLECTIVE_ALGORITHM_H_
#define RINGMASTER_WORKER_COLLECTIVE_ALGORITHM_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace ringmaster {

// The values are in frames: never renumber, only append.
enum class Algorithm : uint8_t {
  kAuto = 0,  // chosen by size from what was measured (cost_model.h)
  kRing = 1,
  kHalvingDoubling = 2,
  kDirect = 3,
  kExchange = 4,
  kGatherBroadcast = 5,
  kHierarchical = 6,
};

inline constexpr std::array<Algorithm, 6> kAlgorithms = {
    Algorithm::kRing,
    Algorithm::kHalvingDoubling,
    Algorithm::kDirect,
    Algorithm::kExchange,
    Algorithm::kGatherBroadcast,
    Algorithm::kHierarchical};

// "auto", "ring", "halving_doubling", ...; "unknown" outside the enum.
[[nodiscard]] const char* AlgorithmName(Algorithm algorithm);

// The inverse. INVALID_ARGUMENT names the text and the accepted names.
[[nodiscard]] absl::StatusOr<Algorithm> ParseAlgorithm(std::string_view name);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_ALGORITHM_H_
