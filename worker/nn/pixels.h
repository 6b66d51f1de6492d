// The input of a model of images. T is float or double.
//
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_PIXELS_H_
#define RINGMASTER_WORKER_NN_PIXELS_H_

#include <cstdint>

#include "common/sync/thread_pool.h"
#include "worker/nn/compute.h"

namespace ringmaster {

// y [count] = pixels / 255
template <typename T>
void PixelsForward(const Compute& compute, int64_t count, const uint8_t* pixels,
                   T* y) {
  // Pixels that a thread converts at once.
  constexpr int64_t kGrain = 16384;
  compute.pool.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(pixels[i]) / T{255};
  });
}

// The factor and summand that normalize a channel's bytes; enough of them for
// the most channels.
struct PixelScales {
  static constexpr int64_t kMaxChannels = 4;
  int64_t channels = 0;
  float factor[kMaxChannels] = {};
  float summand[kMaxChannels] = {};
};

// y [pixels,channels] = bytes * factor + summand
template <typename T>
void NormalizePixels(const Compute& compute, int64_t pixels,
                     const PixelScales& scales, const uint8_t* bytes, T* y) {
  constexpr int64_t kGrain = 8192;
  const int64_t channels = scales.channels;
  compute.pool.ParallelFor(pixels, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        y[i * channels + c] = static_cast<T>(bytes[i * channels + c]) *
                                  static_cast<T>(scales.factor[c]) +
                              static_cast<T>(scales.summand[c]);
      }
    }
  });
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_PIXELS_H_
