// PermutationSampler decides which samples make up the global batch of a step.
//
// All epochs form one endless sequence of positions; epoch e holds positions
// [e * n, (e + 1) * n). Within an epoch, position -> sample is a keyed
// permutation of [0, n): a Feistel network over the smallest even number of
// bits that holds n, walked until it lands inside [0, n) (Black and Rogaway,
// "Ciphers with Arbitrary Finite Domains", 2002).
//
// Guarantees: every sample exactly once in each epoch, no padding; a pure
// function of (seed, n, position), so seeking and resuming cost O(1) and need
// no state; the same on every rank and for every world size. Not guaranteed:
// that it is fit for cryptography.
// Step numbers begin at 1: step s uses positions [(s - 1) * global_batch, s *
// global_batch), whichever epochs they fall in.
// Thread-safety: immutable.
// Example:
//   PermutationSampler sampler(config.seed, dataset->size(Split::kTrain));
//   ElemRange part = ChunkOf(rank, world_size, global_batch);
//   sampler.SamplesOf(step, global_batch, part, absl::MakeSpan(ids));
#ifndef RINGMASTER_WORKER_DATA_PERMUTATION_SAMPLER_H_
#define RINGMASTER_WORKER_DATA_PERMUTATION_SAMPLER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/plan/partition.h"

namespace ringmaster {

class PermutationSampler {
 public:
  // Requires 0 < num_samples < 2^62.
  PermutationSampler(uint64_t seed, int64_t num_samples);

  int64_t num_samples() const { return num_samples_; }
  // The sample at `position` >= 0 of the endless sequence.
  int64_t SampleAt(int64_t position) const;
  // The epoch (from 0) of the first position of `step`. Requires step >= 1.
  int64_t EpochOf(int64_t step, int64_t global_batch) const;
  // Writes the samples of part [part.begin, part.end()) of step `step`'s global
  // batch to `ids`. Requires step >= 1, a part inside [0, global_batch), and
  // ids.size() == part.count.
  void SamplesOf(int64_t step, int64_t global_batch, ElemRange part,
                 absl::Span<int64_t> ids) const;
  // Likewise, their epochs (from 0).
  void EpochsOf(int64_t step, int64_t global_batch, ElemRange part,
                absl::Span<int64_t> epochs) const;

 private:
  int64_t Permute(uint64_t key, int64_t index) const;

  uint64_t seed_;
  int64_t num_samples_;
  int half_bits_;  // the permutation works on 2 * half_bits_ bits
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PERMUTATION_SAMPLER_H_
