// Fuzz gives a fuzz target inputs that follow from a seed (InputOf in
// wire_input.h), and tells which one it does not survive.
#ifndef RINGMASTER_TESTS_FUZZ_FUZZ_RUN_H_
#define RINGMASTER_TESTS_FUZZ_FUZZ_RUN_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace ringmaster::fuzz {

using FuzzTarget = int (*)(const uint8_t* bytes, size_t size);

struct FuzzRun {
  uint64_t seed = 1;
  uint64_t first = 0;  // index of the first input
  uint64_t iterations = 0;
};

// Runs `target` in a process of its own, so that a crash, whoever notices it, is
// one input's: INTERNAL names that input and the command that tries it again.
[[nodiscard]] absl::Status Fuzz(const FuzzRun& run, FuzzTarget target);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_FUZZ_RUN_H_
