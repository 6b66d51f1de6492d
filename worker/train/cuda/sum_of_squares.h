// SumOfSquares on a GPU: what common/optimizer/norm.h does on a CPU.
//
// Guarantees: added up in double, in a fixed order that depends on the length
// alone, so that ranks with equal inputs get equal sums, whatever their GPUs (a
// CPU's order is another one). Not finite iff an element is not finite.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_SUM_OF_SQUARES_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_SUM_OF_SQUARES_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// Doubles of scratch for `count` elements or fewer.
int64_t SumOfSquaresScratchElems(int64_t count);

// *sum = the sum of the squares of elems [count]. All in device memory.
void SumOfSquares(CudaStream& stream, int64_t count, const float* elems,
                  double* scratch, double* sum);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_SUM_OF_SQUARES_H_
