#include "tests/simulator/batch.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace ringmaster::simulator {
namespace {

BatchResult Of(uint64_t seed, RunResult run) {
  BatchResult batch;
  batch.seeds = 1;
  batch.events = run.events;
  batch.commits = run.commits;
  batch.rollbacks = run.rollbacks;
  batch.suspensions = run.suspensions;
  batch.lies = run.lies;
  batch.liar_evictions = run.liar_evictions;
  batch.refutations = run.refutations;
  batch.duration = run.duration;
  std::copy(run.faults.begin(), run.faults.end(), batch.faults.begin());
  batch.recoveries = std::move(run.recoveries);
  if (!run.violation.has_value()) return batch;
  batch.all.emplace_back(seed, *run.violation);
  batch.violation = std::move(run.violation);
  batch.failed_seed = seed;
  return batch;
}

void Add(BatchResult& sum, BatchResult part) {
  sum.seeds += part.seeds;
  sum.events += part.events;
  sum.commits += part.commits;
  sum.rollbacks += part.rollbacks;
  sum.suspensions += part.suspensions;
  sum.lies += part.lies;
  sum.liar_evictions += part.liar_evictions;
  sum.refutations += part.refutations;
  sum.duration += part.duration;
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    sum.faults[kind] += part.faults[kind];
  }
  sum.recoveries.insert(sum.recoveries.end(), part.recoveries.begin(),
                        part.recoveries.end());
  sum.all.insert(sum.all.end(), part.all.begin(), part.all.end());
  if (part.violation.has_value() &&
      (!sum.violation.has_value() || part.failed_seed < sum.failed_seed)) {
    sum.violation = std::move(part.violation);
    sum.failed_seed = part.failed_seed;
  }
}

}  // namespace

BatchResult RunSeeds(const BatchOptions& options) {
  // How many seeds are given out; a count, as the last seed may be the highest
  // number there is.
  std::atomic<uint64_t> given = 0;
  std::atomic<bool> is_over = false;
  std::vector<BatchResult> parts(options.jobs);
  const auto work = [&](BatchResult& part) {
    while (!is_over.load(std::memory_order_relaxed)) {
      const uint64_t index = given.fetch_add(1, std::memory_order_relaxed);
      if (index > options.last - options.first) return;
      const uint64_t seed = options.first + index;
      RunResult run = RunSeed(seed, options.run);
      if (options.on_run != nullptr) options.on_run(seed, run);
      Add(part, Of(seed, std::move(run)));
      if (part.violation.has_value() && !options.goes_on) is_over = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < options.jobs; ++i) {
    threads.emplace_back(work, std::ref(parts[i]));
  }
  work(parts[0]);
  for (std::thread& thread : threads) thread.join();
  BatchResult sum;
  for (BatchResult& part : parts) Add(sum, std::move(part));
  return sum;
}

}  // namespace ringmaster::simulator
