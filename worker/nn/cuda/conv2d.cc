#include "worker/nn/cuda/conv2d.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "worker/nn/cuda/add_bias.h"
#include "worker/nn/cuda/cudnn_convolution.h"
#include "worker/nn/cuda/linear.h"
#include "worker/nn/cuda/patches.h"

namespace ringmaster::cuda {
namespace {

// The elements of patches that are made at a time: few enough to stay in the
// cache of a large GPU until they are multiplied, and enough to fill it.
constexpr int64_t kPatchElems = int64_t{1} << 24;
// Patches begin at a multiple of 16 bytes, if the scratch does.
constexpr int64_t kAlignElems = 8;

int64_t Pixels(const Conv2dShape& shape) {
  return shape.batch * shape.height * shape.width;
}

// Elements of a patch of an image with that many channels.
int64_t PatchElems(const Conv2dShape& shape, int64_t channels) {
  return shape.kernel * shape.kernel * channels;
}

int64_t LargestPatchElems(const Conv2dShape& shape) {
  return PatchElems(shape, std::max(shape.in, shape.out));
}

// Elements of the weight, with padding that aligns what follows it.
int64_t TurnedElems(const Conv2dShape& shape) {
  const int64_t elems = PatchElems(shape, shape.in) * shape.out;
  return (elems + kAlignElems - 1) / kAlignElems * kAlignElems;
}

// Calls block(first pixel, pixels) for as many pixels at a time as have room
// for their patches in the scratch, whose patches have then been made.
template <typename T, typename Block>
void ForEachChunk(const CudaCompute& compute, const Conv2dShape& shape,
                  int64_t channels, const T* x, Conv2dScratch<T> scratch,
                  Block block) {
  const int64_t patch = PatchElems(shape, channels);
  const int64_t most = std::max<int64_t>(1, scratch.elems / patch);
  const ImageShape image = {shape.height, shape.width,  channels,
                            shape.kernel, shape.height, shape.width};
  for (int64_t first = 0; first < Pixels(shape); first += most) {
    const int64_t rows = std::min(most, Pixels(shape) - first);
    MakePatches<T>(compute.stream, image, first, rows, x, scratch.data);
    block(first, rows);
  }
}

// Calls run(cuDNN, true if floats are multiplied as TF32) if there is cuDNN.
// Returns true if it did the work.
template <typename Run>
bool TryCudnn(const CudaCompute& compute, Run run) {
  return compute.cudnn_convolution != nullptr &&
         run(*compute.cudnn_convolution, compute.matmul.options().use_tf32);
}

// dweight = or +=, by cuDNN: false if it cannot.
template <typename T>
bool TryCudnnBackwardWeight(const CudaCompute& compute,
                            const Conv2dShape& shape, Write write, const T* dy,
                            const T* x, float* dweight) {
  const int64_t elems = PatchElems(shape, shape.in) * shape.out;
  const MatmulScratch scratch = compute.matmul.scratch();
  const bool is_added = write == Write::kAdd;
  if (is_added && elems > scratch.elems) return false;
  float* const to = is_added ? scratch.data : dweight;
  if (!TryCudnn(compute, [&](CudnnConvolution& cudnn, bool use_tf32) {
        return cudnn.BackwardWeight<T>(shape, use_tf32, dy, x, to);
      })) {
    return false;
  }
  // As to a matrix of one row.
  if (is_added)
    AddBias<float>(compute.stream, 1, elems, elems, scratch.data, dweight);
  return true;
}

}  // namespace

int64_t LeastConv2dScratchElems(const Conv2dShape& shape) {
  return TurnedElems(shape) + LargestPatchElems(shape);
}

int64_t Conv2dScratchElems(const CudaCompute& /*compute*/,
                           const Conv2dShape& shape) {
  const int64_t patch = LargestPatchElems(shape);
  const int64_t all = Pixels(shape) * patch;
  return TurnedElems(shape) + std::max(patch, std::min(all, kPatchElems));
}

template <typename T>
void Conv2dForward(const CudaCompute& compute, const Conv2dShape& shape,
                   const T* x, const T* weight, const T* bias,
                   Conv2dScratch<T> scratch, T* y) {
  if (TryCudnn(compute, [&](CudnnConvolution& cudnn, bool use_tf32) {
        return cudnn.Forward<T>(shape, use_tf32, x, weight, bias, y);
      })) {
    return;
  }
  ForEachChunk<T>(
      compute, shape, shape.in, x, scratch, [&](int64_t first, int64_t rows) {
        LinearForward<T>(compute,
                         {rows, PatchElems(shape, shape.in), shape.out},
                         scratch.data, weight, bias, y + first * shape.out);
      });
}

template <typename T>
void Conv2dBackwardInput(const CudaCompute& compute, const Conv2dShape& shape,
                         const T* dy, const T* weight, Conv2dScratch<T> scratch,
                         T* dx) {
  if (TryCudnn(compute, [&](CudnnConvolution& cudnn, bool use_tf32) {
        return cudnn.BackwardInput<T>(shape, use_tf32, dy, weight, dx);
      })) {
    return;
  }
  T* const turned = scratch.data;
  TurnWeight<T>(compute.stream, shape.out, shape.kernel, shape.in, weight,
                turned);
  const Conv2dScratch<T> patches = {scratch.data + TurnedElems(shape),
                                    scratch.elems - TurnedElems(shape)};
  ForEachChunk<T>(
      compute, shape, shape.out, dy, patches, [&](int64_t first, int64_t rows) {
        LinearForward<T>(compute,
                         {rows, PatchElems(shape, shape.out), shape.in},
                         patches.data, turned, nullptr, dx + first * shape.in);
      });
}

template <typename T>
void Conv2dBackwardParameters(const CudaCompute& compute,
                              const Conv2dShape& shape, Write write,
                              const T* dy, const T* x, Conv2dScratch<T> scratch,
                              float* dweight, float* dbias) {
  const LinearShape all = {Pixels(shape), PatchElems(shape, shape.in),
                           shape.out};
  LinearBackwardBias<T>(compute, all, write, dy, dbias);
  if (TryCudnnBackwardWeight<T>(compute, shape, write, dy, x, dweight)) return;
  if (all.batch == 0)
    LinearBackwardWeight<T>(compute, all, write, dy, x, dweight);
  ForEachChunk<T>(
      compute, shape, shape.in, x, scratch, [&](int64_t first, int64_t rows) {
        LinearBackwardWeight<T>(compute, {rows, all.in, all.out},
                                first == 0 ? write : Write::kAdd,
                                dy + first * shape.out, scratch.data, dweight);
      });
}

#define RM_INSTANTIATE(T)                                                      \
  template void Conv2dForward<T>(const CudaCompute&, const Conv2dShape&,       \
                                 const T*, const T*, const T*,                 \
                                 Conv2dScratch<T>, T*);                        \
  template void Conv2dBackwardInput<T>(const CudaCompute&, const Conv2dShape&, \
                                       const T*, const T*, Conv2dScratch<T>,   \
                                       T*);                                    \
  template void Conv2dBackwardParameters<T>(                                   \
      const CudaCompute&, const Conv2dShape&, Write, const T*, const T*,       \
      Conv2dScratch<T>, float*, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
