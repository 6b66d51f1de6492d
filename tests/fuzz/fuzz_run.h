// Fuzz gives a fuzz target inputs that follow from a seed, and tells which one it
// does not survive.
#ifndef RINGMASTER_TESTS_FUZZ_FUZZ_RUN_H_
#define RINGMASTER_TESTS_FUZZ_FUZZ_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/fuzz/wire_input.h"

namespace ringmaster::fuzz {

using FuzzTarget = std::function<int(const uint8_t* bytes, size_t size)>;
// Returns an input, equal for equal arguments, everywhere and always.
using FuzzSource = std::function<Bytes(uint64_t seed, uint64_t index)>;

struct FuzzRun {
  uint64_t seed = 1;
  uint64_t first = 0;  // index of the first input
  // It ends after as many inputs, or when this time has passed.
  uint64_t iterations = std::numeric_limits<uint64_t>::max();
  absl::Duration limit = absl::InfiniteDuration();
  // Begins the command that tries an input again.
  std::string command = "bazel run //tests/fuzz:wire_fuzz --";
};

// Inputs may take no more processor time or memory than this, which is far
// beyond what any needs. Not the memory under sanitizers, whose own has no bounds.
inline constexpr absl::Duration kMaxInputTime = absl::Seconds(5);
inline constexpr size_t kMaxInputMemoryBytes = size_t{512} << 20;

// Runs `target` in a process of its own, so that a crash, whoever notices it, is
// one input's: INTERNAL names that input and the command that tries it again. Else
// the number of inputs.
[[nodiscard]] absl::StatusOr<uint64_t> Fuzz(const FuzzRun& run,
                                            const FuzzSource& source,
                                            const FuzzTarget& target);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_FUZZ_RUN_H_
