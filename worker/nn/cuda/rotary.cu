#include <cmath>

#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/rotary.h"

namespace ringmaster::cuda {
namespace {

__global__ void TableKernel(int64_t window, int64_t half, double theta,
                            float* table) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < window * half; at += step) {
    const int64_t position = at / half;
    const int64_t i = at % half;
    const double angle =
        static_cast<double>(position) *
        pow(theta, -static_cast<double>(i) / static_cast<double>(half));
    float* const row = table + position * 2 * half;
    row[i] = static_cast<float>(cos(angle));
    row[half + i] = static_cast<float>(sin(angle));
  }
}

// A point of a head, at elements i and i + half.
struct Point {
  float first;
  float second;
};

template <typename T>
__device__ Point LoadPoint(const T* at, int64_t half) {
  return {ToFloat(at[0]), ToFloat(at[half])};
}

template <typename T>
__device__ void StorePoint(Point point, int64_t half, T* at) {
  at[0] = RoundTo<T>(point.first);
  at[half] = RoundTo<T>(point.second);
}

__device__ Point Turn(Point point, float cosine, float sine) {
  return {point.first * cosine - point.second * sine,
          point.second * cosine + point.first * sine};
}

// A thread for each point of each query head.
template <typename T>
__global__ void ForwardKernel(RotaryShape shape, const T* q, const T* k,
                              const T* v, const float* table, T* qkv) {
  const int64_t dim = shape.head_dim;
  const int64_t half = dim / 2;
  const int64_t width = shape.heads * dim;
  const int64_t kv_width = shape.kv_heads * dim;
  const int64_t count = shape.samples * shape.window * shape.heads * half;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < count; at += step) {
    const int64_t i = at % half;
    const int64_t head = at / half % shape.heads;
    const int64_t row = at / (half * shape.heads);
    const float* const angles = table + row % shape.window * dim + i;
    const int64_t kv =
        row * kv_width + head / (shape.heads / shape.kv_heads) * dim + i;
    T* const to = qkv + row * 3 * width + head * dim + i;
    StorePoint(Turn(LoadPoint(q + row * width + head * dim + i, half),
                    angles[0], angles[half]),
               half, to);
    StorePoint(Turn(LoadPoint(k + kv, half), angles[0], angles[half]), half,
               to + width);
    StorePoint(LoadPoint(v + kv, half), half, to + 2 * width);
  }
}

// A thread for each point of each head of keys.
template <typename T>
__global__ void BackwardKernel(RotaryShape shape, const T* dqkv,
                               const float* table, T* dq, T* dk, T* dv) {
  const int64_t dim = shape.head_dim;
  const int64_t half = dim / 2;
  const int64_t width = shape.heads * dim;
  const int64_t kv_width = shape.kv_heads * dim;
  const int64_t group = shape.heads / shape.kv_heads;
  const int64_t count = shape.samples * shape.window * shape.kv_heads * half;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < count; at += step) {
    const int64_t i = at % half;
    const int64_t kv_head = at / half % shape.kv_heads;
    const int64_t row = at / (half * shape.kv_heads);
    const float* const angles = table + row % shape.window * dim + i;
    Point dkey = {};
    Point dvalue = {};
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const T* const from = dqkv + row * 3 * width + head * dim + i;
      StorePoint(Turn(LoadPoint(from, half), angles[0], -angles[half]), half,
                 dq + row * width + head * dim + i);
      const Point of_key = LoadPoint(from + width, half);
      const Point of_value = LoadPoint(from + 2 * width, half);
      dkey = {dkey.first + of_key.first, dkey.second + of_key.second};
      dvalue = {dvalue.first + of_value.first, dvalue.second + of_value.second};
    }
    const int64_t kv = row * kv_width + kv_head * dim + i;
    StorePoint(Turn(dkey, angles[0], -angles[half]), half, dk + kv);
    StorePoint(dvalue, half, dv + kv);
  }
}

}  // namespace

void RotaryTable(CudaStream& stream, int64_t window, int64_t head_dim,
                 double theta, float* table) {
  const int64_t count = window * (head_dim / 2);
  if (count == 0) return;  // a grid of 0 blocks is an error
  stream.Check(
      LaunchKernel(TableKernel, GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                   kThreadsPerBlock, 0, stream.get(), window, head_dim / 2,
                   theta, table),
      "rotary_table");
}

template <typename T>
void RotaryForward(CudaStream& stream, const RotaryShape& shape, const T* q,
                   const T* k, const T* v, const float* table, T* qkv) {
  const int64_t count =
      shape.samples * shape.window * shape.heads * (shape.head_dim / 2);
  if (count == 0) return;
  stream.Check(LaunchKernel(ForwardKernel<T>,
                            GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                            kThreadsPerBlock, 0, stream.get(), shape, q, k, v,
                            table, qkv),
               "rotary_forward");
}

template <typename T>
void RotaryBackward(CudaStream& stream, const RotaryShape& shape, const T* dqkv,
                    const float* table, T* dq, T* dk, T* dv) {
  const int64_t count =
      shape.samples * shape.window * shape.kv_heads * (shape.head_dim / 2);
  if (count == 0) return;
  stream.Check(LaunchKernel(BackwardKernel<T>,
                            GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                            kThreadsPerBlock, 0, stream.get(), shape, dqkv,
                            table, dq, dk, dv),
               "rotary_backward");
}

#define RM_INSTANTIATE(T)                                                    \
  template void RotaryForward<T>(CudaStream&, const RotaryShape&, const T*,  \
                                 const T*, const T*, const float*, T*);      \
  template void RotaryBackward<T>(CudaStream&, const RotaryShape&, const T*, \
                                  const float*, T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
