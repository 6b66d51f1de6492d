// Simulation: one simulated cluster from its first hello to the end of its jobs.
//
// Everything follows from the seed: the cluster's shape, every latency, the
// faults and when they come. Runs share nothing, so they may go on in several
// threads at once.
#ifndef RINGMASTER_TESTS_SIMULATOR_SIMULATION_H_
#define RINGMASTER_TESTS_SIMULATOR_SIMULATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulator/bug.h"
#include "tests/simulator/fault.h"
#include "tests/simulator/invariant.h"
#include "tests/simulator/shape.h"

namespace ringmaster::simulator {

struct RunOptions {
  Bug bug = Bug::kNone;
  Holders holders = Holders::kRanks;
  // One of the faults is a worker that says what is not so.
  bool has_liar = false;
  // Two to four jobs share the workers; only with kRanks.
  bool has_many_jobs = false;
  // Keeps the story's last lines; slow.
  bool is_traced = false;
  size_t max_lines = 60;
};

struct RunResult {
  std::optional<Violation> violation;
  // A hash of every event; equal for equal seeds.
  uint64_t history_hash = 0;
  std::array<int, kFaultKinds> faults = {};
  int64_t events = 0;
  int commits = 0;
  int rollbacks = 0;
  int suspensions = 0;
  int lies = 0;            // about a link
  int liar_evictions = 0;  // for a link
  int refutations = 0;     // of what it said of its steps
  // Virtual nanoseconds: of the run, and without a commit for each generation
  // that followed another.
  int64_t duration = 0;
  std::vector<int64_t> recoveries;
  std::vector<std::string> lines;
};

[[nodiscard]] RunResult RunSeed(uint64_t seed, const RunOptions& options);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_SIMULATION_H_
