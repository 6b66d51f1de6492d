// A classifier's scratch, as a part of a model's buffers.
#ifndef RINGMASTER_WORKER_NN_CUDA_CLASSIFIER_SCRATCH_H_
#define RINGMASTER_WORKER_NN_CUDA_CLASSIFIER_SCRATCH_H_

#include <cstdint>

#include "worker/nn/buffer_cutter.h"
#include "worker/nn/cuda/classifier.h"

namespace ringmaster::cuda {

// For batches of up to `shape`.
template <typename T>
ClassifierScratch<T> TakeClassifierScratch(const CudaCompute& /*compute*/,
                                           HeadShape shape,
                                           BufferCutter& cutter) {
  const int64_t rows = LogitChunkRows(shape);
  return {
      .chunk_rows = rows,
      .logits = cutter.Take<T>(ClassifierLogitElems(shape, rows)),
      .sums = cutter.Take<double>(ClassifierSumElems(rows)),
  };
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CLASSIFIER_SCRATCH_H_
