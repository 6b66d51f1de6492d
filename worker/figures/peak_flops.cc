#include "worker/figures/peak_flops.h"

#include <algorithm>
#include <vector>

#include "absl/time/time.h"
#include "worker/figures/fma_burst.h"

namespace ringmaster {
namespace {

constexpr int kBursts = 20;
// Some 0.05 to 0.2 ms: far more than reading the clock takes, far less than a
// scheduler's time slice.
constexpr int64_t kIterations = 1 << 14;

double Measure(const FmaBurst& burst, const Clock& clock) {
  double peak = 0;
  for (int i = 0; i < kBursts; ++i) {
    const MonotonicTime start = clock.Now();
    // The values stay near 1: neither overflow nor denormals slow them down.
    burst.run(kIterations, 0.5f, 0.5f);
    const double seconds = absl::ToDoubleSeconds(clock.Now() - start);
    if (seconds <= 0) continue;
    peak = std::max(peak, static_cast<double>(burst.flops_per_iteration) *
                              static_cast<double>(kIterations) / seconds);
  }
  return peak;
}

}  // namespace

PeakFlops MeasurePeakFlops(const Clock& clock) {
  PeakFlops peak;
  peak.float32 = Measure(Float32Bursts().front(), clock);
  const std::vector<FmaBurst> bfloat16 = BFloat16Bursts();
  if (!bfloat16.empty()) peak.bfloat16 = Measure(bfloat16.front(), clock);
  return peak;
}

}  // namespace ringmaster
