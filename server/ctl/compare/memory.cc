#include "server/ctl/compare/memory.h"

#include <algorithm>
#include <cmath>

namespace ringmaster::ctl {

MemoryResult MemoryFrom(const RunResult& few, const RunResult& more) {
  MemoryResult memory;
  memory.mode = few.mode;
  memory.workers = few.workers;
  memory.few_samples = few.samples_at_once;
  memory.more_samples = more.samples_at_once;
  memory.failure = few.is_ok() ? more.failure : few.failure;
  if (!memory.is_ok()) return memory;
  if (few.ranks.size() != more.ranks.size() ||
      memory.more_samples <= memory.few_samples) {
    memory.failure = "its two runs cannot be compared";
    return memory;
  }
  const auto further =
      static_cast<double>(memory.more_samples - memory.few_samples);
  for (size_t i = 0; i < few.ranks.size(); ++i) {
    const double before = few.ranks[i].peak_resident_bytes;
    const double after = more.ranks[i].peak_resident_bytes;
    RankMemory rank;
    rank.is_server = few.ranks[i].is_server;
    rank.peak_bytes = before;
    if (after - before >= kMemoryNoiseBytes)
      rank.bytes_per_sample = (after - before) / further;
    rank.fixed_bytes = before - rank.bytes_per_sample *
                                    static_cast<double>(memory.few_samples);
    memory.ranks.push_back(rank);
  }
  return memory;
}

Spread SpreadOf(const MemoryResult& memory, double RankMemory::*value) {
  Spread spread;
  int workers = 0;
  for (const RankMemory& rank : memory.ranks) {
    if (rank.is_server) continue;
    spread.least =
        workers == 0 ? rank.*value : std::min(spread.least, rank.*value);
    spread.most = std::max(spread.most, rank.*value);
    spread.mean += rank.*value;
    ++workers;
  }
  if (workers > 0) spread.mean /= workers;
  return spread;
}

std::optional<int64_t> LargestBatch(const MemoryResult& memory,
                                    double device_bytes) {
  std::optional<int64_t> largest;
  for (const RankMemory& rank : memory.ranks) {
    const double left = device_bytes - rank.fixed_bytes;
    if (left <= 0) return 0;
    if (rank.is_server || rank.bytes_per_sample <= 0) continue;
    const auto samples =
        static_cast<int64_t>(std::floor(left / rank.bytes_per_sample));
    largest = std::min(largest.value_or(samples), samples);
  }
  return largest;
}

}  // namespace ringmaster::ctl
