// The most operations a second that a GPU can do in dense matrix products.
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_PEAK_FLOPS_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_PEAK_FLOPS_H_

#include "worker/nn/compute.h"

namespace ringmaster {

// Returns the peak of a GPU of `compute_capability` (90 for 9.0), given its
// number of multiprocessors and its highest clock; a multiply and an add are
// two operations. From the throughput tables of NVIDIA's architecture white
// papers (A100: 2020, H100: 2022) and the CUDA C++ Programming Guide. 0 where
// it is not known. Pure.
[[nodiscard]] double CudaPeakFlops(int compute_capability, int multiprocessors,
                                   double clock_hertz, Precision precision);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_PEAK_FLOPS_H_
