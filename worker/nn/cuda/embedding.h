// Embeddings on a GPU: the plain one of worker/nn/embedding.h, and that of
// tokens with their positions of worker/nn/token_embedding.h. Same shapes and
// meaning.
//
// All arrays lie in device memory. T, of tables and activations, is float,
// __nv_bfloat16 or __half; gradients of tables are float. Requires ids in
// [0, vocabulary), and fewer than 2^31 of them.
// Guarantees: the gradients of one id are added one after another in the order
// of ids, those of a position in the order of samples, so that for T = float
// they are a CPU's, to the bit. For it the places of ids are sorted by id (a
// stable radix sort); a row of the table that no id names is not visited, but
// for being cleared by Write::kSet.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_EMBEDDING_H_
#define RINGMASTER_WORKER_NN_CUDA_EMBEDDING_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/embedding.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster::cuda {

// y [count,dim] =
template <typename T>
void EmbeddingForward(CudaStream& stream, EmbeddingShape shape,
                      const int32_t* ids, const T* table, T* y);

// y [samples,window,dim] =
template <typename T>
void TokenEmbeddingForward(CudaStream& stream, TokenEmbeddingShape shape,
                           const int32_t* ids, const T* tokens,
                           const T* positions, T* y);

// Elements of scratch for the gradients of up to `ids` ids.
int64_t EmbeddingScratchElems(CudaStream& stream, int64_t ids);

// dtable [vocabulary,dim] = or +=
template <typename T>
void EmbeddingBackward(CudaStream& stream, EmbeddingShape shape, Write write,
                       const int32_t* ids, const T* dy, int32_t* scratch,
                       float* dtable);

// dpositions [window,dim] = or +=
template <typename T>
void TokenEmbeddingBackwardPositions(CudaStream& stream,
                                     TokenEmbeddingShape shape, Write write,
                                     const T* dy, float* dpositions);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_EMBEDDING_H_
