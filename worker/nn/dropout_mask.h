// DropoutMask says which elements of one sample dropout keeps: a hash of
// (key, sample id, element), with no state, so that backward finds the mask of
// forward again instead of keeping it.
//
// The key and the sample id are mixed into 64 bits once per sample; an element
// then costs two 32-bit multiplications, a few shifts and a comparison, which
// compilers vectorize in a plain loop. The element's part is the two rounds of
// "lowbias32" (C. Wellons, "Prospecting for Hash Functions", 2018), with the
// second half of the key added between them: were both halves added to the
// element, two samples could have one sequence, shifted.
// Good for dropping activations, not for secrets. constexpr, so that device
// code may call it.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_DROPOUT_MASK_H_
#define RINGMASTER_WORKER_NN_DROPOUT_MASK_H_

#include <cstdint>

#include "common/plan/counter_random.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/compute.h"

namespace ringmaster {

// The mask of one sample, with at most 2^32 elements.
struct DropoutMask {
  uint32_t key_low = 0;
  uint32_t key_high = 0;
  uint32_t threshold = 0;  // rate * 2^32; 0 keeps everything
};

// See DropoutMask::threshold.
constexpr uint32_t DropoutThreshold(const Dropout& dropout) {
  return static_cast<uint32_t>(dropout.rate * 0x1.0p32);
}

// The mask of a sample.
constexpr DropoutMask DropoutMaskOf(uint64_t key, int64_t sample_id,
                                    uint32_t threshold) {
  const uint64_t mixed = CounterRandom(key, static_cast<uint64_t>(sample_id));
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32),
          threshold};
}

// The mask of the sample at place `sample` of the batch.
constexpr DropoutMask DropoutMaskOf(const Dropout& dropout, int64_t sample) {
  if (dropout.rate == 0) return {};
  return DropoutMaskOf(dropout.key, dropout.sample_ids[sample],
                       DropoutThreshold(dropout));
}

// The factor of a kept element: 1 / (1 - rate).
constexpr double DropoutScale(const Dropout& dropout) {
  return 1 / (1 - dropout.rate);
}

// A number for element `index` of the sample.
RM_KERNEL constexpr uint32_t MaskHash(DropoutMask mask, uint32_t index) {
  uint32_t x = index ^ mask.key_low;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) + mask.key_high;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Returns true if element `index` of the sample is kept.
RM_KERNEL constexpr bool IsKept(DropoutMask mask, uint32_t index) {
  return MaskHash(mask, index) >= mask.threshold;
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_DROPOUT_MASK_H_
