#include "worker/nn/cuda/strided_conv.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "worker/nn/conv2d.h"
#include "worker/nn/cuda/add_bias.h"
#include "worker/nn/cuda/cudnn_convolution.h"
#include "worker/nn/cuda/linear.h"
#include "worker/nn/cuda/patches.h"

namespace ringmaster::cuda {
namespace {

using Shape = StridedConvShape;

// The elements of patches that are made at a time, as in conv2d.cc.
constexpr int64_t kPatchElems = int64_t{1} << 24;
// Parts of scratch begin at a multiple of 16 bytes, if the scratch does.
constexpr int64_t kAlignElems = 8;

int64_t Align(int64_t elems) {
  return (elems + kAlignElems - 1) / kAlignElems * kAlignElems;
}

int64_t InPixels(const Shape& shape) { return shape.batch * shape.in_pixels(); }
int64_t OutPixels(const Shape& shape) {
  return shape.batch * shape.out_pixels();
}

// The gradient of the weight as floats, of which T's may be two.
template <typename T>
int64_t FloatsIn(int64_t floats) {
  return floats * static_cast<int64_t>(sizeof(float) / sizeof(T));
}

// The convolution as cuDNN and the product of pixels see it.
Conv2dShape WithStride(const Shape& shape) {
  return {shape.batch, shape.height, shape.width, shape.in,
          shape.out,   shape.kernel, shape.stride};
}
LinearShape PixelProduct(const Shape& shape) {
  return {InPixels(shape), shape.in, shape.out};
}

// Patches of x, for each pixel of the output; or of the output's gradient, for
// each pixel of x.
ImageShape ForwardPatches(const Shape& shape) {
  return {.height = shape.height,
          .width = shape.width,
          .channels = shape.in,
          .kernel = shape.kernel,
          .out_height = shape.out_height(),
          .out_width = shape.out_width(),
          .stride = shape.stride};
}
ImageShape BackwardPatches(const Shape& shape) {
  return {.height = shape.out_height(),
          .width = shape.out_width(),
          .channels = shape.out,
          .kernel = shape.kernel,
          .out_height = shape.height,
          .out_width = shape.width,
          .spread = shape.stride};
}

// Calls block(first place, places) for as many at a time as have room for their
// patches in the scratch, whose patches have then been made.
template <typename T, typename Block>
void ForEachChunk(const CudaCompute& compute, const ImageShape& image,
                  int64_t places, const T* x, StridedConvScratch<T> scratch,
                  Block block) {
  const int64_t patch = image.kernel * image.kernel * image.channels;
  const int64_t most = std::max<int64_t>(1, scratch.elems / patch);
  for (int64_t first = 0; first < places; first += most) {
    const int64_t rows = std::min(most, places - first);
    MakePatches<T>(compute.stream, image, first, rows, x, scratch.data);
    block(first, rows);
  }
}

template <typename T>
StridedConvScratch<T> Behind(StridedConvScratch<T> scratch, int64_t elems) {
  return {scratch.data + elems, scratch.elems - elems};
}

// Calls run(cuDNN, true if floats are multiplied as TF32) if there is cuDNN.
// Returns true if it did the work.
template <typename Run>
bool TryCudnn(const CudaCompute& compute, Run run) {
  return compute.cudnn_convolution != nullptr &&
         run(*compute.cudnn_convolution, compute.matmul.options().use_tf32);
}

}  // namespace

int64_t StridedConvScratchElems(const CudaCompute& /*compute*/,
                                const StridedConvShape& shape) {
  if (shape.is_pointwise()) return 0;
  const int64_t places = shape.kernel * shape.kernel;
  const int64_t forward = OutPixels(shape) * shape.depth();
  const int64_t backward = InPixels(shape) * places * shape.out;
  const int64_t patch = places * std::max(shape.in, shape.out);
  const int64_t patches =
      std::max(patch, std::min(std::max(forward, backward), kPatchElems));
  // The turned weight, or its gradient as floats; and either patches or an
  // input's gradient that is to be added.
  return Align(2 * shape.weight_elems()) +
         std::max(patches, InPixels(shape) * shape.in);
}

template <typename T>
void StridedConvForward(const CudaCompute& compute,
                        const StridedConvShape& shape, const T* x,
                        const T* weight, StridedConvScratch<T> scratch, T* y) {
  if (shape.is_pointwise()) {
    LinearForward<T>(compute, PixelProduct(shape), x, weight, nullptr, y);
    return;
  }
  T* const turned = scratch.data;
  ChannelsInnermost<T>(compute.stream, shape.out, shape.in,
                       shape.kernel * shape.kernel, /*is_turned=*/false, weight,
                       turned);
  if (TryCudnn(compute, [&](CudnnConvolution& cudnn, bool use_tf32) {
        return cudnn.Forward<T>(WithStride(shape), use_tf32, x, turned,
                                /*bias=*/nullptr, y);
      })) {
    return;
  }
  ForEachChunk<T>(compute, ForwardPatches(shape), OutPixels(shape), x,
                  Behind(scratch, Align(shape.weight_elems())),
                  [&](int64_t first, int64_t rows) {
                    LinearForward<T>(compute, {rows, shape.depth(), shape.out},
                                     scratch.data + Align(shape.weight_elems()),
                                     turned, nullptr, y + first * shape.out);
                  });
}

template <typename T>
void StridedConvBackwardInput(const CudaCompute& compute,
                              const StridedConvShape& shape, const T* dy,
                              const T* weight, StridedConvScratch<T> scratch,
                              Write write, T* dx) {
  if (shape.is_pointwise()) {
    LinearBackwardInput<T>(compute, PixelProduct(shape), dy, weight, dx, write);
    return;
  }
  const int64_t places = shape.kernel * shape.kernel;
  T* const turned = scratch.data;
  const StridedConvScratch<T> rest =
      Behind(scratch, Align(shape.weight_elems()));
  if (compute.cudnn_convolution != nullptr) {
    ChannelsInnermost<T>(compute.stream, shape.out, shape.in, places,
                         /*is_turned=*/false, weight, turned);
    T* const to = write == Write::kAdd ? rest.data : dx;
    if (TryCudnn(compute, [&](CudnnConvolution& cudnn, bool use_tf32) {
          return cudnn.BackwardInput<T>(WithStride(shape), use_tf32, dy, turned,
                                        to);
        })) {
      const int64_t elems = InPixels(shape) * shape.in;
      // As to a matrix of one row.
      if (write == Write::kAdd)
        AddBias<T>(compute.stream, 1, elems, elems, to, dx);
      return;
    }
  }
  ChannelsInnermost<T>(compute.stream, shape.out, shape.in, places,
                       /*is_turned=*/true, weight, turned);
  ForEachChunk<T>(
      compute, BackwardPatches(shape), InPixels(shape), dy, rest,
      [&](int64_t first, int64_t rows) {
        // As the gradient of the input of a product that has the
        // weight the other way round, since that can be added to.
        LinearBackwardInput<T>(
            compute, {rows, shape.in, places * shape.out, WeightLayout::kInOut},
            rest.data, turned, dx + first * shape.in, write);
      });
}

template <typename T>
void StridedConvBackwardWeight(const CudaCompute& compute,
                               const StridedConvShape& shape, Write write,
                               const T* dy, const T* x,
                               StridedConvScratch<T> scratch, float* dweight) {
  if (shape.is_pointwise()) {
    LinearBackwardWeight<T>(compute, PixelProduct(shape), write, dy, x,
                            dweight);
    return;
  }
  auto* const gradient = reinterpret_cast<float*>(scratch.data);
  const StridedConvScratch<T> rest =
      Behind(scratch, Align(FloatsIn<T>(shape.weight_elems())));
  const LinearShape all = {OutPixels(shape), shape.depth(), shape.out};
  if (!TryCudnn(compute, [&](CudnnConvolution& cudnn, bool use_tf32) {
        return cudnn.BackwardWeight<T>(WithStride(shape), use_tf32, dy, x,
                                       gradient);
      })) {
    if (all.batch == 0) {
      compute.stream.FillZero(
          gradient, shape.weight_elems() * static_cast<int64_t>(sizeof(float)));
    }
    ForEachChunk<T>(compute, ForwardPatches(shape), all.batch, x, rest,
                    [&](int64_t first, int64_t rows) {
                      LinearBackwardWeight<T>(
                          compute, {rows, all.in, all.out},
                          first == 0 ? Write::kSet : Write::kAdd,
                          dy + first * shape.out, rest.data, gradient);
                    });
  }
  ChannelsOutermost(compute.stream, shape.out, shape.in,
                    shape.kernel * shape.kernel, write, gradient, dweight);
}

#define RM_INSTANTIATE(T)                                                     \
  template void StridedConvForward<T>(const CudaCompute&,                     \
                                      const StridedConvShape&, const T*,      \
                                      const T*, StridedConvScratch<T>, T*);   \
  template void StridedConvBackwardInput<T>(                                  \
      const CudaCompute&, const StridedConvShape&, const T*, const T*,        \
      StridedConvScratch<T>, Write, T*);                                      \
  template void StridedConvBackwardWeight<T>(                                 \
      const CudaCompute&, const StridedConvShape&, Write, const T*, const T*, \
      StridedConvScratch<T>, float*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
