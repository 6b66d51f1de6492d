#include "worker/nn/dropout.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/dropout_mask.h"

namespace ringmaster {
namespace {

constexpr int64_t kGrain = 16384;

template <typename T>
RM_KERNEL void DropKernel(int64_t count, DropoutMask mask, T scale,
                          uint32_t first, T* __restrict x) {
  for (int64_t i = 0; i < count; ++i)
    x[i] *= IsKept(mask, first + static_cast<uint32_t>(i)) ? scale : T{0};
}

}  // namespace

template <typename T>
void ApplyDropout(const Compute& compute, const Dropout& dropout,
                  int64_t samples, const T* x, T* y) {
  const int64_t per_sample = dropout.elems_per_sample;
  const T scale = static_cast<T>(DropoutScale(dropout));
  const auto run = [&](int64_t begin, int64_t end) {
    if (x != y) std::copy(x + begin, x + end, y + begin);
    if (dropout.rate == 0) return;
    // A block may hold the end of one sample and the begin of the next.
    while (begin < end) {
      const int64_t sample = begin / per_sample;
      const int64_t part_end = std::min(end, (sample + 1) * per_sample);
      CallOnCpuFma<DropKernel<T>>(
          part_end - begin, DropoutMaskOf(dropout, sample), scale,
          static_cast<uint32_t>(begin - sample * per_sample), y + begin);
      begin = part_end;
    }
  };
  compute.pool.ParallelFor(samples * per_sample, kGrain, run);
}

template void ApplyDropout<float>(const Compute&, const Dropout&, int64_t,
                                  const float*, float*);
template void ApplyDropout<double>(const Compute&, const Dropout&, int64_t,
                                   const double*, double*);

}  // namespace ringmaster
