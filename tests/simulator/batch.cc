#include "tests/simulator/batch.h"

#include <atomic>
#include <thread>
#include <utility>

namespace ringmaster::simulator {
namespace {

void Add(BatchResult& batch, uint64_t seed, RunResult result) {
  ++batch.seeds;
  batch.events += result.events;
  batch.commits += result.commits;
  batch.rollbacks += result.rollbacks;
  batch.duration += result.duration;
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    batch.faults[kind] += result.faults[kind];
  }
  batch.recoveries.insert(batch.recoveries.end(), result.recoveries.begin(),
                          result.recoveries.end());
  if (result.violation.has_value()) {
    batch.all.emplace_back(seed, *result.violation);
  }
  if (result.violation.has_value() &&
      (!batch.violation.has_value() || seed < batch.failed_seed)) {
    batch.violation = std::move(result.violation);
    batch.failed_seed = seed;
  }
}

void Add(BatchResult& sum, BatchResult part) {
  sum.seeds += part.seeds;
  sum.events += part.events;
  sum.commits += part.commits;
  sum.rollbacks += part.rollbacks;
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

BatchResult RunSeeds(uint64_t first, uint64_t last, int jobs,
                     const RunOptions& options, bool goes_on) {
  std::atomic<uint64_t> next = first;
  std::atomic<bool> is_over = false;
  std::vector<BatchResult> parts(jobs);
  const auto work = [&](BatchResult& part) {
    while (!is_over.load(std::memory_order_relaxed)) {
      const uint64_t seed = next.fetch_add(1, std::memory_order_relaxed);
      if (seed > last) return;
      Add(part, seed, RunSeed(seed, options));
      if (part.violation.has_value() && !goes_on) is_over = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < jobs; ++i) {
    threads.emplace_back(work, std::ref(parts[i]));
  }
  work(parts[0]);
  for (std::thread& thread : threads) thread.join();
  BatchResult sum;
  for (BatchResult& part : parts) Add(sum, std::move(part));
  return sum;
}

}  // namespace ringmaster::simulator
