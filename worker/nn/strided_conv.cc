#include "worker/nn/strided_conv.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/gemm.h"

namespace ringmaster {
namespace {

// Elements of patches to make at a time, and rows, whichever is more: few enough
// to stay in a cache, and enough for efficient products.
constexpr int64_t kPatchElems = int64_t{1} << 20;
constexpr int64_t kPatchRows = 512;
// Elements that a thread copies at once, about.
constexpr int64_t kGrainElems = 16384;

using Shape = StridedConvShape;

// Samples whose patches are made at a time.
int64_t ChunkSamples(const Shape& shape) {
  const int64_t rows = std::max(kPatchRows, kPatchElems / shape.depth());
  return std::clamp<int64_t>(rows / shape.out_pixels(), 1,
                             std::max<int64_t>(1, shape.batch));
}

int64_t PatchElems(const Shape& shape) {
  return ChunkSamples(shape) * shape.out_pixels() * shape.depth();
}

// The places of a kernel's line that lie on the image, for the output pixel at
// `at` of a dimension of `size` pixels: [first, last).
struct Inside {
  int64_t begin;  // in the image, of the kernel's first place
  int64_t first;
  int64_t last;
};

RM_KERNEL Inside InsideOf(int64_t at, int64_t stride, int64_t kernel,
                          int64_t size) {
  const int64_t begin = at * stride - kernel / 2;
  return {begin, std::max<int64_t>(0, -begin), std::min(kernel, size - begin)};
}

// patches [out_width,kernel,kernel,in] = the patches of one line of the output,
// 0 beyond the border. The kernel's lines are contiguous in x, too.
template <typename T>
void PatchesOfLine(const Shape& shape, const T* x, int64_t line, T* patches) {
  const Inside down = InsideOf(line, shape.stride, shape.kernel, shape.height);
  const int64_t row = shape.kernel * shape.in;
  for (int64_t column = 0; column < shape.out_width(); ++column) {
    const Inside across =
        InsideOf(column, shape.stride, shape.kernel, shape.width);
    for (int64_t i = 0; i < shape.kernel; ++i) {
      T* const to = patches + (column * shape.kernel + i) * row;
      if (i < down.first || i >= down.last) {
        std::fill_n(to, row, T{0});
        continue;
      }
      const T* const from =
          x + ((down.begin + i) * shape.width + across.begin) * shape.in;
      const int64_t first = across.first * shape.in;
      const int64_t last = across.last * shape.in;
      std::fill_n(to, first, T{0});
      std::copy_n(from + first, last - first, to + first);
      std::fill(to + last, to + row, T{0});
    }
  }
}

int64_t LinesGrain(const Shape& shape) {
  return std::max<int64_t>(1,
                           kGrainElems / (shape.out_width() * shape.depth()));
}

// patches [samples,out pixels,depth] =
template <typename T>
void MakePatches(const Compute& compute, const Shape& shape, int64_t samples,
                 const T* x, T* patches) {
  const int64_t lines = shape.out_height();
  compute.pool.ParallelFor(
      samples * lines, LinesGrain(shape), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          PatchesOfLine<T>(shape, x + i / lines * shape.in_pixels() * shape.in,
                           i % lines,
                           patches + i * shape.out_width() * shape.depth());
        }
      });
}

template <typename T>
RM_KERNEL void AddTo(int64_t count, const T* __restrict from,
                     T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// One line of a sample's dx: each pixel is the sum of its places in all patches
// that it is part of, in their order.
template <typename T>
RM_KERNEL void SumLine(const Shape& shape, const T* patches, int64_t line,
                       bool add, T* dx) {
  const int64_t half = shape.kernel / 2;
  const int64_t out_width = shape.out_width();
  const int64_t out_height = shape.out_height();
  if (!add) std::fill_n(dx, shape.width * shape.in, T{0});
  for (int64_t i = 0; i < shape.kernel; ++i) {
    // The output's line whose patches have this one at the kernel's line i.
    const int64_t down = line + half - i;
    if (down < 0 || down % shape.stride != 0) continue;
    const int64_t row = down / shape.stride;
    if (row >= out_height) continue;
    for (int64_t column = 0; column < out_width; ++column) {
      const Inside across =
          InsideOf(column, shape.stride, shape.kernel, shape.width);
      const T* const from =
          patches + ((row * out_width + column) * shape.kernel + i) *
                        shape.kernel * shape.in;
      AddTo<T>((across.last - across.first) * shape.in,
               from + across.first * shape.in,
               dx + (across.begin + across.first) * shape.in);
    }
  }
}

// dx [samples,height,width,in] = or += the sums of `patches`.
template <typename T>
void SumPatches(const Compute& compute, const Shape& shape, int64_t samples,
                const T* patches, Write write, T* dx) {
  const int64_t lines = shape.height;
  compute.pool.ParallelFor(
      samples * lines, LinesGrain(shape), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          CallOnCpuFma<SumLine<T>>(
              shape, patches + i / lines * shape.out_pixels() * shape.depth(),
              i % lines, write == Write::kAdd, dx + i * shape.width * shape.in);
        }
      });
}

// turned [out,kernel,kernel,in] = the weights with their channels innermost.
template <typename T>
void ChannelsInnermost(const Compute& compute, const Shape& shape,
                       const T* weight, T* turned) {
  const int64_t places = shape.kernel * shape.kernel;
  compute.pool.ParallelFor(
      shape.out, std::max<int64_t>(1, kGrainElems / shape.depth()),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* const from = weight + i * shape.depth();
          T* const to = turned + i * shape.depth();
          for (int64_t place = 0; place < places; ++place) {
            for (int64_t n = 0; n < shape.in; ++n)
              to[place * shape.in + n] = from[n * places + place];
          }
        }
      });
}

// dweight [out,in,kernel,kernel] = or += the gradients in the other order.
template <typename T>
void ChannelsOutermost(const Compute& compute, const Shape& shape, Write write,
                       const T* turned, T* dweight) {
  const int64_t places = shape.kernel * shape.kernel;
  const auto put = [&](int64_t begin, int64_t end, bool add) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const from = turned + i * shape.depth();
      T* const to = dweight + i * shape.depth();
      for (int64_t n = 0; n < shape.in; ++n) {
        for (int64_t place = 0; place < places; ++place) {
          T& element = to[n * places + place];
          element = (add ? element : T{0}) + from[place * shape.in + n];
        }
      }
    }
  };
  compute.pool.ParallelFor(shape.out,
                           std::max<int64_t>(1, kGrainElems / shape.depth()),
                           [&](int64_t begin, int64_t end) {
                             put(begin, end, write == Write::kAdd);
                           });
}

// Calls each(samples, first pixel of the output, x of the first sample) for the
// samples whose patches are there at once.
template <typename Each>
void ForEachChunk(const Shape& shape, const Each& each) {
  const int64_t most = ChunkSamples(shape);
  for (int64_t first = 0; first < shape.batch; first += most)
    each(std::min(most, shape.batch - first), first);
}

}  // namespace

int64_t StridedConvScratchElems(const Compute& /*compute*/,
                                const StridedConvShape& shape) {
  if (shape.is_pointwise()) return 0;
  return shape.weight_elems() + PatchElems(shape);
}

template <typename T>
void StridedConvForward(const Compute& compute, const StridedConvShape& shape,
                        const T* x, const T* weight,
                        StridedConvScratch<T> scratch, T* y) {
  if (shape.is_pointwise()) {
    Gemm<T>(compute, Transpose::kNo, Transpose::kYes,
            {shape.batch * shape.in_pixels(), shape.out, shape.in}, x, weight,
            {.c = y});
    return;
  }
  T* const turned = scratch.data;
  T* const patches = turned + shape.weight_elems();
  ChannelsInnermost<T>(compute, shape, weight, turned);
  ForEachChunk(shape, [&](int64_t samples, int64_t first) {
    MakePatches<T>(compute, shape, samples,
                   x + first * shape.in_pixels() * shape.in, patches);
    Gemm<T>(compute, Transpose::kNo, Transpose::kYes,
            {samples * shape.out_pixels(), shape.out, shape.depth()}, patches,
            turned, {.c = y + first * shape.out_pixels() * shape.out});
  });
}

template <typename T>
void StridedConvBackwardInput(const Compute& compute,
                              const StridedConvShape& shape, const T* dy,
                              const T* weight, StridedConvScratch<T> scratch,
                              Write write, T* dx) {
  if (shape.is_pointwise()) {
    Gemm<T>(compute, Transpose::kNo, Transpose::kNo,
            {shape.batch * shape.in_pixels(), shape.in, shape.out}, dy, weight,
            {.c = dx, .write = write});
    return;
  }
  T* const turned = scratch.data;
  T* const patches = turned + shape.weight_elems();
  ChannelsInnermost<T>(compute, shape, weight, turned);
  ForEachChunk(shape, [&](int64_t samples, int64_t first) {
    Gemm<T>(compute, Transpose::kNo, Transpose::kNo,
            {samples * shape.out_pixels(), shape.depth(), shape.out},
            dy + first * shape.out_pixels() * shape.out, turned,
            {.c = patches});
    SumPatches<T>(compute, shape, samples, patches, write,
                  dx + first * shape.in_pixels() * shape.in);
  });
}

template <typename T>
void StridedConvBackwardWeight(const Compute& compute,
                               const StridedConvShape& shape, Write write,
                               const T* dy, const T* x,
                               StridedConvScratch<T> scratch, T* dweight) {
  if (shape.is_pointwise()) {
    Gemm<T>(compute, Transpose::kYes, Transpose::kNo,
            {shape.out, shape.in, shape.batch * shape.in_pixels()}, dy, x,
            {.c = dweight, .write = write});
    return;
  }
  T* const turned = scratch.data;
  T* const patches = turned + shape.weight_elems();
  if (shape.batch == 0) std::fill_n(turned, shape.weight_elems(), T{0});
  ForEachChunk(shape, [&](int64_t samples, int64_t first) {
    MakePatches<T>(compute, shape, samples,
                   x + first * shape.in_pixels() * shape.in, patches);
    Gemm<T>(compute, Transpose::kYes, Transpose::kNo,
            {shape.out, shape.depth(), samples * shape.out_pixels()},
            dy + first * shape.out_pixels() * shape.out, patches,
            {.c = turned, .write = first == 0 ? Write::kSet : Write::kAdd});
  });
  ChannelsOutermost<T>(compute, shape, write, turned, dweight);
}

#define RM_INSTANTIATE(T)                                                      \
  template void StridedConvForward<T>(const Compute&, const StridedConvShape&, \
                                      const T*, const T*,                      \
                                      StridedConvScratch<T>, T*);              \
  template void StridedConvBackwardInput<T>(                                   \
      const Compute&, const StridedConvShape&, const T*, const T*,             \
      StridedConvScratch<T>, Write, T*);                                       \
  template void StridedConvBackwardWeight<T>(                                  \
      const Compute&, const StridedConvShape&, Write, const T*, const T*,      \
      StridedConvScratch<T>, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
