#include "worker/train/cuda/peak_flops.h"

namespace ringmaster {
namespace {

// Operations of a multiprocessor in a cycle.
struct Throughput {
  int compute_capability;
  double float32;   // of its CUDA cores
  double bfloat16;  // of its tensor cores, sums in float32; float16 is alike
};

constexpr Throughput kThroughputs[] = {
    {80, 128, 2048},  // A100
    {86, 256, 512},   // A10, A40, RTX 30
    {89, 256, 1024},  // L4, L40
    {90, 256, 4096},  // H100, H200
};

}  // namespace

double CudaPeakFlops(int compute_capability, int multiprocessors,
                     double clock_hertz, Precision precision) {
  for (const Throughput& throughput : kThroughputs) {
    if (throughput.compute_capability != compute_capability) continue;
    const double cycles = multiprocessors * clock_hertz;
    switch (precision) {
      case Precision::kFloat32:
        return cycles * throughput.float32;
      case Precision::kTf32:
        return cycles * throughput.bfloat16 / 2;
      case Precision::kBFloat16:
      case Precision::kFloat16:
        return cycles * throughput.bfloat16;
    }
  }
  return 0;
}

}  // namespace ringmaster
