#include "worker/nn/cuda/classifier.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "worker/nn/cuda/linear.h"
#include "worker/nn/cuda/softmax_cross_entropy.h"

namespace ringmaster::cuda {
namespace {

// The most elements of a chunk's logits, two gigabytes of two bytes each,
// unless kLeastRows rows have more: that is little beside the activations of as
// many rows, and each further chunk costs a sweep over dweight.
constexpr int64_t kChunkElems = int64_t{1} << 30;
constexpr int64_t kLeastRows = 256;
// Rows of a chunk are rounded up to a multiple of this.
constexpr int64_t kRowUnit = 64;
// 16 bytes, if elements have two bytes.
constexpr int64_t kStrideUnit = 8;

int64_t RoundUp(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

int64_t LogitStride(HeadShape shape) {
  return RoundUp(shape.classes, kStrideUnit);
}

// The rows of all chunks but the last. Equal chunks, rather than full ones and
// a small rest, whose products would be slow.
int64_t EqualChunkRows(int64_t rows, int64_t most) {
  const int64_t chunks = (rows + most - 1) / most;
  return std::min(most, RoundUp((rows + chunks - 1) / chunks, kRowUnit));
}

// Calls block(first row, rows) for each chunk, after its logits were computed.
template <typename T, typename Block>
void ForEachChunk(const CudaCompute& compute, HeadShape shape, const T* x,
                  const T* weight, const T* bias,
                  const ClassifierScratch<T>& scratch, Block block) {
  if (shape.rows == 0) return;
  const int64_t chunk_rows = EqualChunkRows(shape.rows, scratch.chunk_rows);
  for (int64_t begin = 0; begin < shape.rows; begin += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, shape.rows - begin);
    compute.matmul.Multiply<T>({.transpose_a = Transpose::kNo,
                                .transpose_b = Transpose::kYes,
                                .size = {rows, shape.classes, shape.dim},
                                .c_stride = LogitStride(shape)},
                               x + begin * shape.dim, weight,
                               {.c = scratch.logits, .bias = bias});
    block(begin, rows);
  }
}

}  // namespace

int64_t LogitChunkRows(HeadShape shape) {
  return std::min(shape.rows,
                  std::max(kChunkElems / LogitStride(shape), kLeastRows));
}

int64_t ClassifierLogitElems(HeadShape shape, int64_t chunk_rows) {
  return chunk_rows * LogitStride(shape);
}

int64_t ClassifierSumElems(int64_t chunk_rows) {
  return SoftmaxCrossEntropyScratchElems(chunk_rows);
}

template <typename T>
void ClassifierTrain(const CudaCompute& compute, HeadShape shape,
                     const DeviceLossTerms* terms, Write write, const T* x,
                     const T* weight, const T* bias, const int32_t* targets,
                     const ClassifierScratch<T>& scratch, T* dx, float* dweight,
                     float* dbias, double* loss_sum) {
  const int64_t stride = LogitStride(shape);
  if (shape.rows == 0 && write == Write::kSet) {
    compute.stream.FillZero(dweight, shape.classes * shape.dim *
                                         static_cast<int64_t>(sizeof(float)));
    if (dbias != nullptr)
      compute.stream.FillZero(
          dbias, shape.classes * static_cast<int64_t>(sizeof(float)));
  }
  const auto train = [&](int64_t begin, int64_t rows) {
    const Write chunk_write = begin == 0 ? write : Write::kAdd;
    T* const dlogits = scratch.logits;
    SoftmaxCrossEntropyTrain<T>(compute.stream, rows, shape.classes, stride,
                                terms, targets + begin, dlogits, scratch.sums,
                                loss_sum);
    compute.matmul.MultiplyToFloat<T>({.transpose_a = Transpose::kYes,
                                       .transpose_b = Transpose::kNo,
                                       .size = {shape.classes, shape.dim, rows},
                                       .a_stride = stride},
                                      dlogits, x + begin * shape.dim,
                                      chunk_write, dweight);
    if (dbias != nullptr)
      LinearBackwardBias<T>(compute, {rows, shape.dim, shape.classes},
                            chunk_write, dlogits, dbias, stride);
    compute.matmul.Multiply<T>({.transpose_a = Transpose::kNo,
                                .transpose_b = Transpose::kNo,
                                .size = {rows, shape.dim, shape.classes},
                                .a_stride = stride},
                               dlogits, weight, {.c = dx + begin * shape.dim});
  };
  ForEachChunk<T>(compute, shape, x, weight, bias, scratch, train);
}

template <typename T>
void ClassifierPredict(const CudaCompute& compute, HeadShape shape, const T* x,
                       const T* weight, const T* bias, const int32_t* targets,
                       const ClassifierScratch<T>& scratch, double* loss_sum,
                       int64_t* correct, ClassOutcome* outcomes) {
  ForEachChunk<T>(compute, shape, x, weight, bias, scratch,
                  [&](int64_t begin, int64_t rows) {
                    SoftmaxCrossEntropyPredict<T>(
                        compute.stream, rows, shape.classes, LogitStride(shape),
                        targets + begin, scratch.logits, scratch.sums, loss_sum,
                        correct,
                        outcomes == nullptr ? nullptr : outcomes + begin);
                  });
}

#define RM_INSTANTIATE(T)                                                     \
  template void ClassifierTrain<T>(                                           \
      const CudaCompute&, HeadShape, const DeviceLossTerms*, Write, const T*, \
      const T*, const T*, const int32_t*, const ClassifierScratch<T>&, T*,    \
      float*, float*, double*);                                               \
  template void ClassifierPredict<T>(const CudaCompute&, HeadShape, const T*, \
                                     const T*, const T*, const int32_t*,      \
                                     const ClassifierScratch<T>&, double*,    \
                                     int64_t*, ClassOutcome*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
