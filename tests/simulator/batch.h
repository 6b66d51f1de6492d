// RunSeeds: many seeds in several threads, up to the first violation.
#ifndef RINGMASTER_TESTS_SIMULATOR_BATCH_H_
#define RINGMASTER_TESTS_SIMULATOR_BATCH_H_

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulator/simulation.h"

namespace ringmaster::simulator {

struct BatchResult {
  // The violation of the lowest seed among those that were run.
  std::optional<Violation> violation;
  uint64_t failed_seed = 0;
  // All violations; one unless RunSeeds goes on.
  std::vector<std::pair<uint64_t, Violation>> all;
  // Sums over all seeds that were run.
  int64_t seeds = 0;
  int64_t events = 0;
  int64_t commits = 0;
  int64_t rollbacks = 0;
  int64_t duration = 0;
  std::array<int64_t, kFaultKinds> faults = {};
  std::vector<int64_t> recoveries;
};

// Runs the seeds `first` to `last`, both included. After a violation no
// further seed is begun, unless `goes_on`.
[[nodiscard]] BatchResult RunSeeds(uint64_t first, uint64_t last, int jobs,
                                   const RunOptions& options,
                                   bool goes_on = false);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_BATCH_H_
