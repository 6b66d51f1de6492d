#include "worker/nn/cuda/activations.h"
#include "worker/nn/cuda/dropout_mask.cuh"
#include "worker/nn/cuda/elementwise.cuh"

namespace ringmaster::cuda {
namespace {

// 1/2 (1 + tanh(u)) is the logistic function of 2u, so that one exponential does.
// This is 2 sqrt(2 / pi).
constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

// Its exponential may overflow, to a logistic of 0.
__device__ float Logistic(float x) {
  const float two_u = kTwoRootTwoOverPi * x * (1.0f + kCubic * x * x);
  return 1.0f / (1.0f + __expf(-two_u));
}

struct Gelu {
  __device__ float operator()(float x) const { return x * Logistic(x); }
};

struct GeluGradient {
  __device__ float operator()(float x, float dy) const {
    // Beyond, the slope is 0 or 1 up to rounding, while its terms overflow. NaN
    // fails both comparisons.
    constexpr float kFlat = 10;
    x = x < -kFlat ? -kFlat : x;
    x = x > kFlat ? kFlat : x;
    const float s = Logistic(x);
    const float two_u_slope = kTwoRootTwoOverPi * (1.0f + 3 * kCubic * x * x);
    return dy * (s + x * s * (1.0f - s) * two_u_slope);
  }
};

// The normal distribution, P(X <= x).
__device__ float Normal(float x) { return 0.5f * erfcf(x * -0.70710678f); }

struct ErfGelu {
  __device__ float operator()(float x) const { return x * Normal(x); }
};

struct ErfGeluGradient {
  __device__ float operator()(float x, float dy) const {
    // Beyond, the slope is 0 or 1 up to rounding, while its terms overflow. NaN
    // fails both comparisons.
    constexpr float kFlat = 10;
    x = x < -kFlat ? -kFlat : x;
    x = x > kFlat ? kFlat : x;
    return dy * (Normal(x) + x * 0.39894228f * __expf(-0.5f * x * x));
  }
};

struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};

struct TanhGradient {
  __device__ float operator()(float y, float dy) const {
    return dy * (1.0f - y * y);
  }
};

// x / (1 + exp(-x)); its exponential may overflow, to 0.
__device__ float Silu(float x) { return x / (1.0f + __expf(-x)); }

struct SwiGlu {
  __device__ float operator()(float gate, float up) const {
    return Silu(gate) * up;
  }
};

struct SwiGluUpGradient {
  __device__ float operator()(float gate, float dy) const {
    return Silu(gate) * dy;
  }
};

struct SwiGluGateGradient {
  __device__ float operator()(float gate, float up, float dy) const {
    const float s = 1.0f / (1.0f + __expf(-gate));
    return dy * up * s * (1.0f + gate * (1.0f - s));
  }
};

// Comparisons are such that NaN fails them.
struct Relu {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};

struct ReluGradient {
  __device__ float operator()(float y, float dy) const {
    return y <= 0 ? 0.0f : dy;
  }
};

struct PixelValue {
  __device__ float operator()(float pixel) const { return pixel / 255.0f; }
};

// Row y of the grid treats samples y, y + gridDim.y, ...
template <int kWidth, typename T>
__global__ void DropoutKernel(DropoutKey dropout, int64_t samples,
                              int64_t per_sample, const T* x, T* y) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * kWidth;
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  for (int64_t sample = blockIdx.y; sample < samples; sample += gridDim.y) {
    const DropoutMask mask = DropoutMaskOf(dropout, sample);
    const T* const from = x + sample * per_sample;
    T* const to = y + sample * per_sample;
    for (int64_t i = first; i < per_sample; i += stride) {
      Pack<kWidth, float> pack = LoadFloats<kWidth>(from + i);
      for (int k = 0; k < kWidth; ++k) {
        const bool is_kept = IsKept(mask, static_cast<uint32_t>(i + k));
        pack.elems[k] *= is_kept ? dropout.scale : 0.0f;
      }
      StoreFloats(pack, to + i);
    }
  }
}

template <int kWidth, typename T>
cudaError_t LaunchDropout(cudaStream_t stream, const DeviceDropout& dropout,
                          int64_t samples, const T* x, T* y) {
  constexpr int64_t kMostSamples = 1 << 15;  // of a grid's second dimension
  const int64_t per_sample = dropout.elems_per_sample;
  const dim3 grid(GridBlocks(CeilDivide(per_sample, kWidth * kThreadsPerBlock)),
                  static_cast<unsigned>(std::min(samples, kMostSamples)));
  return LaunchKernel(DropoutKernel<kWidth, T>, grid, dim3(kThreadsPerBlock), 0,
                      stream, DropoutKeyOf(dropout), samples, per_sample, x, y);
}

template <typename T>
__global__ void PixelsByChannelKernel(int64_t count, PixelScales scales,
                                      const uint8_t* bytes, T* y) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const int64_t channel = i % scales.channels;
    y[i] = RoundTo<T>(static_cast<float>(bytes[i]) * scales.factor[channel] +
                      scales.summand[channel]);
  }
}

}  // namespace

template <typename T>
void GeluForward(CudaStream& stream, int64_t count, const T* x, T* y,
                 GeluForm form) {
  if (form == GeluForm::kErf)
    return Map(stream, "gelu_forward", count, ErfGelu(), y, x);
  Map(stream, "gelu_forward", count, Gelu(), y, x);
}

template <typename T>
void GeluBackward(CudaStream& stream, int64_t count, const T* x, const T* dy,
                  T* dx, GeluForm form) {
  if (form == GeluForm::kErf)
    return Map(stream, "gelu_backward", count, ErfGeluGradient(), dx, x, dy);
  Map(stream, "gelu_backward", count, GeluGradient(), dx, x, dy);
}

template <typename T>
void SwiGluForward(CudaStream& stream, int64_t count, const T* gate,
                   const T* up, T* y) {
  Map(stream, "swiglu_forward", count, SwiGlu(), y, gate, up);
}

template <typename T>
void SwiGluBackward(CudaStream& stream, int64_t count, const T* gate,
                    const T* up, const T* dy, T* dgate, T* dup) {
  // First what does not overwrite dy.
  Map(stream, "swiglu_backward of up", count, SwiGluUpGradient(), dup, gate,
      dy);
  Map(stream, "swiglu_backward of gate", count, SwiGluGateGradient(), dgate,
      gate, up, dy);
}

template <typename T>
void TanhForward(CudaStream& stream, int64_t count, T* x) {
  Map(stream, "tanh_forward", count, Tanh(), x, static_cast<const T*>(x));
}

template <typename T>
void TanhBackward(CudaStream& stream, int64_t count, const T* y, const T* dy,
                  T* dx) {
  Map(stream, "tanh_backward", count, TanhGradient(), dx, y, dy);
}

template <typename T>
void ReluForward(CudaStream& stream, int64_t count, T* x) {
  Map(stream, "relu_forward", count, Relu(), x, static_cast<const T*>(x));
}

template <typename T>
void ReluBackward(CudaStream& stream, int64_t count, const T* y, const T* dy,
                  T* dx) {
  Map(stream, "relu_backward", count, ReluGradient(), dx, y, dy);
}

template <typename T>
void ApplyDropout(CudaStream& stream, const DeviceDropout& dropout,
                  int64_t samples, const T* x, T* y) {
  const int64_t count = samples * dropout.elems_per_sample;
  if (count == 0) return;  // a grid of 0 blocks is an error
  if (dropout.rate == 0) {
    if (x != y) {
      stream.CopyOnDevice(y, x, count * static_cast<int64_t>(sizeof(T)));
    }
    return;
  }
  const bool is_packed =
      ArePacked(x, y) && dropout.elems_per_sample % kPackElems<T> == 0;
  stream.Check(
      is_packed
          ? LaunchDropout<kPackElems<T>>(stream.get(), dropout, samples, x, y)
          : LaunchDropout<1>(stream.get(), dropout, samples, x, y),
      "dropout");
}

template <typename T>
void PixelsForward(CudaStream& stream, int64_t count, const uint8_t* pixels,
                   T* y) {
  Map(stream, "pixels", count, PixelValue(), y, pixels);
}

template <typename T>
void NormalizePixels(CudaStream& stream, int64_t pixels,
                     const PixelScales& scales, const uint8_t* bytes, T* y) {
  const int64_t count = pixels * scales.channels;
  if (count == 0) return;
  stream.Check(
      LaunchKernel(PixelsByChannelKernel<T>,
                   GridBlocks(CeilDivide(count, kThreadsPerBlock)),
                   kThreadsPerBlock, 0, stream.get(), count, scales, bytes, y),
      "normalized pixels");
}

#define RM_INSTANTIATE(T)                                                      \
  template void GeluForward<T>(CudaStream&, int64_t, const T*, T*, GeluForm);  \
  template void TanhForward<T>(CudaStream&, int64_t, T*);                      \
  template void TanhBackward<T>(CudaStream&, int64_t, const T*, const T*, T*); \
  template void GeluBackward<T>(CudaStream&, int64_t, const T*, const T*, T*,  \
                                GeluForm);                                     \
  template void SwiGluForward<T>(CudaStream&, int64_t, const T*, const T*,     \
                                 T*);                                          \
  template void SwiGluBackward<T>(CudaStream&, int64_t, const T*, const T*,    \
                                  const T*, T*, T*);                           \
  template void ReluForward<T>(CudaStream&, int64_t, T*);                      \
  template void ReluBackward<T>(CudaStream&, int64_t, const T*, const T*, T*); \
  template void ApplyDropout<T>(CudaStream&, const DeviceDropout&, int64_t,    \
                                const T*, T*);                                 \
  template void PixelsForward<T>(CudaStream&, int64_t, const uint8_t*, T*);    \
  template void NormalizePixels<T>(CudaStream&, int64_t, const PixelScales&,   \
                                   const uint8_t*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
