// MeasurePeakFlops measures the floating-point operations that one thread can
// do in a second: the hundred per cent of model FLOPs utilization.
//
// It runs independent chains of fused multiply-add in registers, in the widest
// vectors that this processor has, so it finds what the processor really does
// and needs no table of models. The best of many short bursts counts:
// neighbours, interrupts and a clock that has yet to rise only make bursts
// slower. Takes about 5 ms. A thread alone may run at a higher clock than all
// threads together, so `threads * peak` is an upper bound. Matrix tiles (AMX)
// are not measured: where a library uses them, bfloat16 may exceed the peak
// found here.
#ifndef RINGMASTER_WORKER_FIGURES_PEAK_FLOPS_H_
#define RINGMASTER_WORKER_FIGURES_PEAK_FLOPS_H_

#include "common/clock/clock.h"

namespace ringmaster {

struct PeakFlops {
  // Operations a second of one thread; a multiplication and an addition are
  // two.
  double float32 = 0;
  // Products of bfloat16 summed in float; 0 on a processor without AVX512_BF16.
  // Less than float32 where a dot product takes a unit several cycles.
  double bfloat16 = 0;
};

// Returns zeros if the clock stands still.
[[nodiscard]] PeakFlops MeasurePeakFlops(const Clock& clock);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_PEAK_FLOPS_H_
