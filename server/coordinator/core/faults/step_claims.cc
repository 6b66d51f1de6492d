#include "server/coordinator/core/faults/step_claims.h"

#include <algorithm>

namespace ringmaster::coordinator {
namespace {

// Returns true if no step that is reported as applied is beyond what somebody
// holds.
bool CanAllBeTrue(const std::vector<StepClaim>& claims) {
  int64_t applied = 0;
  for (const StepClaim& claim : claims) {
    applied = std::max(applied, claim.applied);
  }
  return std::all_of(
      claims.begin(), claims.end(), [&](const StepClaim& holder) {
        return !holder.held.has_value() ||
               (holder.is_loaded ? applied == 0 || applied == *holder.held
                                 : applied <= *holder.held);
      });
}

// How many of the others that are still `believed` each of them contradicts; 0
// for those that are not.
std::vector<size_t> CountContradictions(const std::vector<StepClaim>& claims,
                                        const std::vector<bool>& believed) {
  std::vector<size_t> counts(claims.size(), 0);
  for (size_t i = 0; i < claims.size(); ++i) {
    for (size_t k = 0; believed[i] && k < i; ++k) {
      if (!believed[k] || (!Contradicts(claims[i], claims[k]) &&
                           !Contradicts(claims[k], claims[i]))) {
        continue;
      }
      ++counts[i];
      ++counts[k];
    }
  }
  return counts;
}

}  // namespace

bool Contradicts(const StepClaim& claim, const StepClaim& holder) {
  if (claim.applied == 0 || !holder.held.has_value()) return false;
  return holder.is_loaded ? claim.applied != *holder.held
                          : claim.applied > *holder.held;
}

DisbelievedClaims Disbelieved(const std::vector<StepClaim>& claims) {
  DisbelievedClaims result;
  if (CanAllBeTrue(claims)) return result;
  std::vector<bool> believed(claims.size(), true);
  const auto refute = [&](size_t i) {
    believed[i] = false;
    result.refuted.push_back(i);
  };
  for (size_t i = 0; i < claims.size(); ++i) {
    if (Contradicts(claims[i], claims[i])) refute(i);
  }
  // One that is false contradicts many, and each of those only the false ones.
  while (true) {
    const std::vector<size_t> counts = CountContradictions(claims, believed);
    const size_t most = *std::max_element(counts.begin(), counts.end());
    if (most == 0) break;
    const auto involved = std::count_if(counts.begin(), counts.end(),
                                        [](size_t count) { return count > 0; });
    const bool is_decided =
        most > 1 &&
        2 * std::count(counts.begin(), counts.end(), most) < involved;
    for (size_t i = 0; i < claims.size(); ++i) {
      if (is_decided && counts[i] == most) refute(i);
      if (!is_decided && counts[i] > 0) result.doubtful.push_back(i);
    }
    if (!is_decided) break;
  }
  std::sort(result.refuted.begin(), result.refuted.end());
  return result;
}

}  // namespace ringmaster::coordinator
