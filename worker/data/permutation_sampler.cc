#include "worker/data/permutation_sampler.h"

#include <algorithm>
#include <bit>

#include "common/plan/counter_random.h"
#include "common/status/check.h"

namespace ringmaster {
namespace {

constexpr int kRounds = 6;

// Half the bits, rounded up, that the numbers below `num_samples` need; at
// least one.
int HalfBitsFor(int64_t num_samples) {
  const int bits = std::bit_width(static_cast<uint64_t>(num_samples - 1));
  return std::max(1, (bits + 1) / 2);
}

}  // namespace

PermutationSampler::PermutationSampler(uint64_t seed, int64_t num_samples)
    : seed_(seed),
      num_samples_(num_samples),
      half_bits_(HalfBitsFor(num_samples)) {
  RM_CHECK(num_samples > 0 && num_samples < int64_t{1} << 62, "no samples");
}

int64_t PermutationSampler::Permute(uint64_t key, int64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  // The network permutes at most 4 * num_samples numbers (of few numbers, 4),
  // so a walk is short: fewer than four rounds of it on average. It ends,
  // because a cycle that begins inside [0, num_samples) comes back to it.
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next =
          left ^ (CounterRandom(key, right * kRounds + round) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<uint64_t>(num_samples_));
  return static_cast<int64_t>(value);
}

int64_t PermutationSampler::SampleAt(int64_t position) const {
  RM_CHECK(position >= 0, "positions count from 0");
  const int64_t epoch = position / num_samples_;
  return Permute(CounterRandom(seed_, static_cast<uint64_t>(epoch)),
                 position % num_samples_);
}

int64_t PermutationSampler::EpochOf(int64_t step, int64_t global_batch) const {
  RM_CHECK(step >= 1, "steps count from 1");
  return (step - 1) * global_batch / num_samples_;
}

void PermutationSampler::SamplesOf(int64_t step, int64_t global_batch,
                                   ElemRange part,
                                   absl::Span<int64_t> ids) const {
  RM_CHECK(step >= 1 && part.begin >= 0 && part.end() <= global_batch,
           "no such part of a global batch");
  RM_CHECK(static_cast<int64_t>(ids.size()) == part.count,
           "the span does not fit the part");
  const int64_t first = (step - 1) * global_batch + part.begin;
  for (int64_t i = 0; i < part.count; ++i) ids[i] = SampleAt(first + i);
}

void PermutationSampler::EpochsOf(int64_t step, int64_t global_batch,
                                  ElemRange part,
                                  absl::Span<int64_t> epochs) const {
  RM_CHECK(step >= 1 && static_cast<int64_t>(epochs.size()) == part.count,
           "no such part of a global batch");
  const int64_t first = (step - 1) * global_batch + part.begin;
  for (int64_t i = 0; i < part.count; ++i)
    epochs[i] = (first + i) / num_samples_;
}

}  // namespace ringmaster
