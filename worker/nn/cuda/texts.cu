#include "worker/nn/cuda/dropout_mask.cuh"
#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/texts.h"

namespace ringmaster::cuda {
namespace {

// All kernels: a block for each sample.

__global__ void TextsKernel(int64_t tokens, int32_t padding, const int32_t* ids,
                            int32_t* lengths, int32_t* firsts) {
  __shared__ int32_t ends[kThreadsPerBlock];
  const int32_t* const sample = ids + blockIdx.x * tokens;
  int32_t end = 1;
  for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x)
    if (sample[i] != padding) end = static_cast<int32_t>(i + 1);
  ends[threadIdx.x] = end;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned thread = 1; thread < blockDim.x; ++thread)
    end = ends[thread] > end ? ends[thread] : end;
  lengths[blockIdx.x] = end;
  firsts[blockIdx.x] = static_cast<int32_t>(blockIdx.x * tokens);
}

template <typename T>
__global__ void TypesKernel(int64_t tokens, int64_t count, int32_t separator,
                            const int32_t* ids, T* types) {
  const int32_t* const sample = ids + blockIdx.x * tokens;
  for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    int64_t type = 0;
    for (int64_t j = 0; j < i; ++j) type += sample[j] == separator ? 1 : 0;
    type = type < count ? type : count - 1;
    T* const row = types + (blockIdx.x * tokens + i) * count;
    for (int64_t k = 0; k < count; ++k)
      row[k] = RoundTo<T>(k == type ? 1.0f : 0.0f);
  }
}

__global__ void MaskKernel(MaskingShape shape, DropoutKey key,
                           const int32_t* ids, int32_t* inputs, int32_t* places,
                           int32_t* targets) {
  uint32_t* const ranks = DynamicShared<uint32_t>();
  const DropoutMask draw = DropoutMaskOf(key, blockIdx.x);
  const int64_t tokens = shape.texts.tokens;
  const int64_t first = blockIdx.x * tokens;
  for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x)
    ranks[i] = MaskingRank(draw, i);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    int64_t rank = 0;
    for (int64_t j = 0; j < tokens; ++j)
      rank += ranks[j] < ranks[i] || (ranks[j] == ranks[i] && j < i) ? 1 : 0;
    const int32_t id = ids[first + i];
    const bool is_masked = rank < shape.count;
    inputs[first + i] = is_masked ? MaskedId(shape, draw, i, id) : id;
    if (!is_masked) continue;
    places[blockIdx.x * shape.count + rank] = static_cast<int32_t>(first + i);
    targets[blockIdx.x * shape.count + rank] = id;
  }
}

}  // namespace

void FindTexts(CudaStream& stream, TextShape shape, int32_t padding,
               const int32_t* ids, int32_t* lengths, int32_t* firsts) {
  if (shape.samples == 0) return;  // a grid of 0 blocks is an error
  stream.Check(
      LaunchKernel(TextsKernel, dim3(static_cast<unsigned>(shape.samples)),
                   dim3(kThreadsPerBlock), 0, stream.get(), shape.tokens,
                   padding, ids, lengths, firsts),
      "find_texts");
}

template <typename T>
void FindTypes(CudaStream& stream, TextShape shape, int64_t count,
               int32_t separator, const int32_t* ids, T* types) {
  if (shape.samples == 0) return;
  stream.Check(
      LaunchKernel(TypesKernel<T>, dim3(static_cast<unsigned>(shape.samples)),
                   dim3(kThreadsPerBlock), 0, stream.get(), shape.tokens, count,
                   separator, ids, types),
      "find_types");
}

void MaskTokens(CudaStream& stream, const MaskingShape& shape,
                const DeviceDropout& draw, const int32_t* ids, int32_t* inputs,
                int32_t* places, int32_t* targets) {
  if (shape.texts.samples == 0) return;
  const size_t shared =
      static_cast<size_t>(shape.texts.tokens) * sizeof(uint32_t);
  stream.Check(
      LaunchKernel(MaskKernel, dim3(static_cast<unsigned>(shape.texts.samples)),
                   dim3(kThreadsPerBlock), shared, stream.get(), shape,
                   DropoutKeyOf(draw), ids, inputs, places, targets),
      "mask_tokens");
}

#define RM_INSTANTIATE(T)                                              \
  template void FindTypes<T>(CudaStream&, TextShape, int64_t, int32_t, \
                             const int32_t*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
