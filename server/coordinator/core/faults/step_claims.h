// Step claims: which of the members of a generation that has halted say of their
// steps what cannot be.
//
// A step is applied only with the records of all members, and a member sends its
// record once it holds the step complete (docs/decisions/0008). So "a applied
// step s" and "b holds no more than step s - 1", both of one generation, exclude
// each other. Who contradicts whom is a graph, like that of broken links: a
// member that says what is not so contradicts the others, and they do not
// contradict one another.
//
// Pure. Thread-safety: thread-compatible; values.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_STEP_CLAIMS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_STEP_CLAIMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringmaster::coordinator {

// What one member says of its steps in the generation.
struct StepClaim {
  // The highest that it ever reported as applied; 0: none.
  int64_t applied = 0;
  // The highest that it holds complete; nullopt if it holds nothing, or has not
  // said.
  std::optional<int64_t> held;
  // `held` is the step of a checkpoint that it has loaded and not applied: it can
  // go on after that step alone, or after none.
  bool is_loaded = false;
};

// Returns true if the step that `claim` reports as applied cannot be, if
// `holder` holds what it says. A claim may contradict itself.
[[nodiscard]] bool Contradicts(const StepClaim& claim, const StepClaim& holder);

// Indices of claims, in their order.
struct DisbelievedClaims {
  // They contradict themselves, or two others at least, and are fewer than those
  // whom they contradict.
  std::vector<size_t> refuted;
  // The others that contradict one another: nobody can tell which of them are
  // false.
  std::vector<size_t> doubtful;
};

// Returns the fewest claims without which the others can all be true. Costs time in
// proportion to the number of claims if all are believed, else to its square.
[[nodiscard]] DisbelievedClaims Disbelieved(
    const std::vector<StepClaim>& claims);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_STEP_CLAIMS_H_
