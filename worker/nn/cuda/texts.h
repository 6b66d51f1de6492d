// The operators of worker/nn/texts.h on a GPU: the same results, in
// device memory, as is what they are made from. T is float, __nv_bfloat16 or
// __half.
//
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_TEXTS_H_
#define RINGMASTER_WORKER_NN_CUDA_TEXTS_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/texts.h"

namespace ringmaster::cuda {

// lengths =, firsts =
void FindTexts(CudaStream& stream, TextShape shape, int32_t padding,
               const int32_t* ids, int32_t* lengths, int32_t* firsts);

// types =
template <typename T>
void FindTypes(CudaStream& stream, TextShape shape, int64_t count,
               int32_t separator, const int32_t* ids, T* types);

// inputs =, places =, targets =
void MaskTokens(CudaStream& stream, const MaskingShape& shape,
                const DeviceDropout& draw, const int32_t* ids, int32_t* inputs,
                int32_t* places, int32_t* targets);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TEXTS_H_
