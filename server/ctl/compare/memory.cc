#include "server/ctl/compare/memory.h"

#include <algorithm>
#include <cmath>

namespace ringmaster::ctl {

int64_t SamplesAtOnce(const RunResult& run) {
  const int64_t pieces = run.workers * run.micro_batches;
  return (run.global_batch + pieces - 1) / pieces;
}

MemoryResult MemoryFrom(const RunResult& few, const RunResult& more) {
  MemoryResult memory;
  memory.mode = few.mode;
  memory.workers = few.workers;
  memory.few_samples = SamplesAtOnce(few);
  memory.more_samples = SamplesAtOnce(more);
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
    // What comes and goes by chance may be more than what a server's grows.
    rank.bytes_per_sample = std::max(0.0, (after - before) / further);
    rank.fixed_bytes = before - rank.bytes_per_sample *
                                    static_cast<double>(memory.few_samples);
    memory.ranks.push_back(rank);
  }
  return memory;
}

std::optional<int64_t> LargestBatch(const MemoryResult& memory,
                                    double device_bytes) {
  std::optional<int64_t> largest;
  for (const RankMemory& rank : memory.ranks) {
    const double left = device_bytes - rank.fixed_bytes;
    if (left <= 0) return std::nullopt;
    if (rank.is_server || rank.bytes_per_sample <= 0) continue;
    const auto samples =
        static_cast<int64_t>(std::floor(left / rank.bytes_per_sample));
    largest = std::min(largest.value_or(samples), samples);
  }
  return largest;
}

}  // namespace ringmaster::ctl
