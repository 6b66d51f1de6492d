// Bursts of multiply-add in registers: the work that MeasurePeakFlops times.
//
// A burst has enough independent chains to keep the processor's units busy
// over the latency of an instruction, and touches no memory. Each is compiled
// for its own instruction set, independently of the rest of the program.
// Thread-safe.
#ifndef RINGMASTER_WORKER_FIGURES_FMA_BURST_H_
#define RINGMASTER_WORKER_FIGURES_FMA_BURST_H_

#include <cstdint>
#include <vector>

namespace ringmaster {

struct FmaBurst {
  const char* isa = "";  // "avx512f"
  // A multiplication and an addition are two.
  int64_t flops_per_iteration = 0;
  // Returns the sum over all lanes of all chains, which start at 0. In one
  // iteration a lane takes, in float, acc = acc * factor + addend; in bfloat16,
  // twice acc = acc + factor * addend.
  double (*run)(int64_t iterations, float factor, float addend) = nullptr;
};

// Returns the bursts that this processor can run, the widest first: at least
// one.
[[nodiscard]] std::vector<FmaBurst> Float32Bursts();
// Products of bfloat16 summed in float; none without AVX512_BF16.
[[nodiscard]] std::vector<FmaBurst> BFloat16Bursts();

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_FMA_BURST_H_
