#include "worker/nn/rotary.h"

#include <algorithm>
#include <cmath>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Elements of qkv that a thread takes at once.
constexpr int64_t kGrain = 16384;

// to = a head turned by the angles; `back` turns it the other way.
template <bool kBack, typename T>
RM_KERNEL void TurnKernel(int64_t half, const T* __restrict cosines,
                          const T* __restrict sines, const T* __restrict from,
                          T* __restrict to) {
  for (int64_t i = 0; i < half; ++i) {
    const T sine = kBack ? -sines[i] : sines[i];
    to[i] = from[i] * cosines[i] - from[i + half] * sine;
    to[i + half] = from[i + half] * cosines[i] + from[i] * sine;
  }
}

// One position's row.
template <typename T>
RM_KERNEL void ForwardKernel(const RotaryShape& shape, const T* angles,
                             const T* q, const T* k, const T* v, T* qkv) {
  const int64_t dim = shape.head_dim;
  const int64_t half = dim / 2;
  const int64_t width = shape.heads * dim;
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t head = 0; head < shape.heads; ++head) {
    T* const to = qkv + head * dim;
    TurnKernel<false>(half, angles, angles + half, q + head * dim, to);
    TurnKernel<false>(half, angles, angles + half, k + head / group * dim,
                      to + width);
    std::copy_n(v + head / group * dim, dim, to + 2 * width);
  }
}

template <typename T>
RM_KERNEL void AddKernel(int64_t count, const T* __restrict x,
                         T* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += x[i];
}

template <typename T>
RM_KERNEL void BackwardKernel(const RotaryShape& shape, const T* angles,
                              const T* dqkv, T* dq, T* dk, T* dv) {
  const int64_t dim = shape.head_dim;
  const int64_t half = dim / 2;
  const int64_t width = shape.heads * dim;
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t head = 0; head < shape.heads; ++head) {
    const T* const from = dqkv + head * dim;
    TurnKernel<true>(half, angles, angles + half, from, dq + head * dim);
    T* const dkey = dk + head / group * dim;
    T* const dvalue = dv + head / group * dim;
    // All heads of a group are turned alike: the sum is, at its end.
    if (head % group == 0) {
      std::copy_n(from + width, dim, dkey);
      std::copy_n(from + 2 * width, dim, dvalue);
    } else {
      AddKernel(dim, from + width, dkey);
      AddKernel(dim, from + 2 * width, dvalue);
    }
    if (head % group != group - 1) continue;
    for (int64_t i = 0; i < half; ++i) {
      const T first = dkey[i];
      const T second = dkey[i + half];
      dkey[i] = first * angles[i] + second * angles[i + half];
      dkey[i + half] = second * angles[i] - first * angles[i + half];
    }
  }
}

// Calls row(index of the row, its angles) for each row, in parallel.
template <typename T, typename Row>
void ForEachRow(const Compute& compute, const RotaryShape& shape,
                const T* table, Row row) {
  const int64_t elems = 3 * shape.heads * shape.head_dim;
  compute.pool.ParallelFor(
      shape.samples * shape.window, std::max<int64_t>(1, kGrain / elems),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          row(i, table + i % shape.window * shape.head_dim);
      });
}

}  // namespace

template <typename T>
void RotaryTable(const Compute& /*compute*/, int64_t window, int64_t head_dim,
                 double theta, T* table) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double speed = std::pow(
        theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t position = 0; position < window; ++position) {
      const double angle = static_cast<double>(position) * speed;
      table[position * head_dim + i] = static_cast<T>(std::cos(angle));
      table[position * head_dim + half + i] = static_cast<T>(std::sin(angle));
    }
  }
}

template <typename T>
void RotaryForward(const Compute& compute, const RotaryShape& shape, const T* q,
                   const T* k, const T* v, const T* table, T* qkv) {
  const int64_t width = shape.heads * shape.head_dim;
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  ForEachRow(compute, shape, table, [&](int64_t row, const T* angles) {
    CallOnCpuFma<ForwardKernel<T>>(shape, angles, q + row * width,
                                   k + row * kv_width, v + row * kv_width,
                                   qkv + row * 3 * width);
  });
}

template <typename T>
void RotaryBackward(const Compute& compute, const RotaryShape& shape,
                    const T* dqkv, const T* table, T* dq, T* dk, T* dv) {
  const int64_t width = shape.heads * shape.head_dim;
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  ForEachRow(compute, shape, table, [&](int64_t row, const T* angles) {
    CallOnCpuFma<BackwardKernel<T>>(shape, angles, dqkv + row * 3 * width,
                                    dq + row * width, dk + row * kv_width,
                                    dv + row * kv_width);
  });
}

#define RM_INSTANTIATE(T)                                                      \
  template void RotaryTable<T>(const Compute&, int64_t, int64_t, double, T*);  \
  template void RotaryForward<T>(const Compute&, const RotaryShape&, const T*, \
                                 const T*, const T*, const T*, T*);            \
  template void RotaryBackward<T>(const Compute&, const RotaryShape&,          \
                                  const T*, const T*, T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
