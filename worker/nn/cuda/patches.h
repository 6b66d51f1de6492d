// The steps that make a convolution a product of matrices (conv2d.h): images as
// rows of patches, and a weight turned around.
//
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_PATCHES_H_
#define RINGMASTER_WORKER_NN_CUDA_PATCHES_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"

namespace ringmaster::cuda {

struct ImageShape {
  int64_t height;
  int64_t width;
  int64_t channels;
  int64_t kernel;  // odd
  // The pixels that the kernel is centred on: every `stride`-th pixel of
  // the image with spread - 1 zeros after each pixel.
  int64_t out_height;
  int64_t out_width;
  int64_t stride = 1;
  int64_t spread = 1;
};

// patches [rows,kernel,kernel,channels] =: row i is what the kernel sees when
// its centre is on the place first + i of those on x [images,height,width,
// channels], counted over all images; 0 beyond the border. In device memory; T is
// float,
// __nv_bfloat16 or __half.
template <typename T>
void MakePatches(CudaStream& stream, const ImageShape& shape, int64_t first,
                 int64_t rows, const T* x, T* patches);

// turned [in,kernel,kernel,out] =: weight [out,kernel,kernel,in] with both
// directions of the kernel, and its channels, the other way round.
template <typename T>
void TurnWeight(CudaStream& stream, int64_t out, int64_t kernel, int64_t in,
                const T* weight, T* turned);

// The weight of PyTorch's order, weight [out,in,places], as [out,places,in]; or
// turned around as above, [in,places,out].
template <typename T>
void ChannelsInnermost(CudaStream& stream, int64_t out, int64_t in,
                       int64_t places, bool is_turned, const T* weight, T* to);

// dweight [out,in,places] = or += gradient [out,places,in].
void ChannelsOutermost(CudaStream& stream, int64_t out, int64_t in,
                       int64_t places, Write write, const float* gradient,
                       float* dweight);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_PATCHES_H_
