// RunSeeds: many seeds in several threads, up to the first violation.
#ifndef RINGMASTER_TESTS_SIMULATOR_BATCH_H_
#define RINGMASTER_TESTS_SIMULATOR_BATCH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulator/simulation.h"

namespace ringmaster::simulator {

struct BatchResult {
  // The violation of the lowest seed among those that were run.
  std::optional<Violation> violation;
  uint64_t failed_seed = 0;
  // All violations; one a job at most unless RunSeeds goes on.
  std::vector<std::pair<uint64_t, Violation>> all;
  // Sums over all seeds that were run.
  int64_t seeds = 0;
  int64_t events = 0;
  int64_t commits = 0;
  int64_t rollbacks = 0;
  int64_t suspensions = 0;
  int64_t lies = 0;
  int64_t liar_evictions = 0;
  int64_t refutations = 0;
  int64_t duration = 0;
  std::array<int64_t, kFaultKinds> faults = {};
  std::vector<int64_t> recoveries;
};

struct BatchOptions {
  // Both are run.
  uint64_t first = 1;
  uint64_t last = 1;
  int jobs = 1;  // threads
  RunOptions run = {};
  // After a violation too; else no further seed is begun then.
  bool goes_on = false;
  // Called after each run, by the thread that made it.
  std::function<void(uint64_t seed, const RunResult&)> on_run = nullptr;
};

[[nodiscard]] BatchResult RunSeeds(const BatchOptions& options);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_BATCH_H_
