#include "worker/collective/algorithm.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ringmaster {

const char* AlgorithmName(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kHalvingDoubling:
      return "halving_doubling";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kExchange:
      return "exchange";
    case Algorithm::kGatherBroadcast:
      return "gather_broadcast";
    case Algorithm::kHierarchical:
      return "hierarchical";
  }
  return "unknown";
}

absl::StatusOr<Algorithm> ParseAlgorithm(std::string_view name) {
  std::string names = AlgorithmName(Algorithm::kAuto);
  if (name == names) return Algorithm::kAuto;
  for (const Algorithm algorithm : kAlgorithms) {
    if (name == AlgorithmName(algorithm)) return algorithm;
    absl::StrAppend(&names, ", ", AlgorithmName(algorithm));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no algorithm is called \"", absl::string_view(name.data(), name.size()),
      "\"; there are ", names));
}

}  // namespace ringmaster
