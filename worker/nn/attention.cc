#include "worker/nn/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/attention_tile.h"
#include "worker/nn/dropout_mask.h"
#include "worker/nn/fast_exp.h"
#include "worker/nn/tile_product.h"

namespace ringmaster {
namespace {

// Independent partial results, which let the compiler vectorize a reduction
// without reordering it.
constexpr int64_t kLanes = 16;

// One head of one sample: where it lies, and what kernels need to know of it.
// Rows of q, k, v (and their gradients) are qkv_stride apart, those of out (and
// its gradient) out_stride.
template <typename T>
struct Head {
  int64_t window;
  int64_t length;  // rows that are not padding
  bool is_causal;
  int64_t dim;
  int64_t padded_dim;  // rows of scratch are that long
  int64_t qkv_stride;
  int64_t out_stride;
  const T* q;
  const T* k;
  const T* v;
  T scale;  // 1/sqrt(dim)
  // The mask of the probabilities; element (q, k) has the index
  // first_elem + q * window + k.
  DropoutMask mask;
  T keep_scale;
  uint32_t first_elem;
};

// The scratch of a thread: `elems` elements, aligned so that no vector load
// crosses a cache line. All zero at first, later whatever was left in it;
// kernels compute with that in the padding, but those results go nowhere.
template <typename T>
T* ThreadScratch(int64_t elems) {
  constexpr size_t kAlignBytes = 64;
  constexpr size_t kAlignElems = kAlignBytes / sizeof(T);
  thread_local std::vector<T> scratch;
  const size_t size = static_cast<size_t>(elems) + kAlignElems;
  if (scratch.size() < size) scratch.assign(size, T{0});
  const auto address = reinterpret_cast<uintptr_t>(scratch.data());
  return scratch.data() + (-address % kAlignBytes) / sizeof(T);
}

template <typename T>
RM_KERNEL T RowMax(const T* row) {
  T lanes[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = row[lane];
  for (int64_t i = kLanes; i < kTile; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = row[i + lane] > lanes[lane] ? row[i + lane] : lanes[lane];
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane)
      lanes[lane] =
          lanes[lane + width] > lanes[lane] ? lanes[lane + width] : lanes[lane];
  }
  return lanes[0];
}

template <typename T>
RM_KERNEL T RowSum(const T* row) {
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < kTile; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += row[i + lane];
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane)
      lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// The state of the running softmax, for each query, after some tiles of keys.
template <typename T>
struct RunningSoftmax {
  T max[kTile];
  T sum[kTile];
};

// Turns the first `visible` scores of a row into exp(score - max), the others
// into 0, and scales what was summed up for this query by the change of max.
template <typename T>
RM_KERNEL void SoftmaxRow(int64_t visible, bool is_first, int64_t dim, T* row,
                          T& max, T& sum, T* out) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  if (visible < kTile) {
    for (int64_t j = 0; j < kTile; ++j) row[j] = j < visible ? row[j] : kLowest;
  }
  const T row_max = RowMax(row);
  const T new_max = is_first || row_max > max ? row_max : max;
  for (int64_t j = 0; j < kTile; ++j) {
    const T p = FastExp(row[j] - new_max);
    row[j] = j < visible ? p : T{0};
  }
  if (is_first) {
    sum = RowSum(row);
  } else {
    const T factor = FastExp(max - new_max);
    sum = sum * factor + RowSum(row);
    for (int64_t d = 0; d < dim; ++d) out[d] *= factor;
  }
  max = new_max;
}

template <typename T>
RM_KERNEL void DropRow(const Head<T>& head, int64_t query, int64_t first_key,
                       T* row) {
  const uint32_t first =
      head.first_elem + static_cast<uint32_t>(query * head.window + first_key);
  for (uint32_t j = 0; j < kTile; ++j)
    row[j] = IsKept(head.mask, first + j) ? row[j] * head.keep_scale : T{0};
}

// Sets the rows of padding, which are `stride` apart.
template <typename T>
RM_KERNEL void ZeroPadding(const Head<T>& head, int64_t stride, T* rows) {
  for (int64_t row = head.length; row < head.window; ++row) {
    for (int64_t d = 0; d < head.dim; ++d) rows[row * stride + d] = 0;
  }
}

template <typename T>
int64_t ForwardScratchElems(const Head<T>& head) {
  const int64_t window = RoundUp(head.window, kTile);
  return window * (head.dim + head.padded_dim) + 2 * kTile * head.padded_dim +
         kTile * kTile;
}

template <typename Tile, typename T>
RM_KERNEL void ForwardHead(Head<T> head, T* scratch, T* out, T* log_sum_exp) {
  const auto [length, dim, stride] =
      std::array{head.length, head.dim, head.padded_dim};
  T* const keys = scratch;  // transposed, tile by tile
  T* const values = keys + RoundUp(length, kTile) * dim;
  T* const queries = values + RoundUp(length, kTile) * stride;
  T* const sums = queries + kTile * stride;
  T* const scores = sums + kTile * stride;
  RunningSoftmax<T> running;
  CopyRows(length, dim, T{1}, head.v, head.qkv_stride, values, stride);
  for (int64_t k = 0; k < length; k += kTile) {
    TransposeRows(std::min(kTile, length - k), dim,
                  head.k + k * head.qkv_stride, head.qkv_stride,
                  keys + k * dim);
  }
  for (int64_t q = 0; q < length; q += kTile) {
    const int64_t rows = std::min(kTile, length - q);
    CopyRows(rows, dim, head.scale, head.q + q * head.qkv_stride,
             head.qkv_stride, queries, stride);
    const int64_t end = head.is_causal ? q + rows : length;
    for (int64_t k = 0; k < end; k += kTile) {
      const bool is_diagonal = head.is_causal && k == q;
      const int64_t key_rows = std::min(kTile, length - k);
      ScoreTile<Tile>(rows, is_diagonal, dim, queries, stride, keys + k * dim,
                      scores);
      for (int64_t r = 0; r < rows; ++r) {
        SoftmaxRow(is_diagonal ? r + 1 : key_rows, k == 0, stride,
                   scores + r * kTile, running.max[r], running.sum[r],
                   sums + r * stride);
        if (head.mask.threshold != 0)
          DropRow(head, q + r, k, scores + r * kTile);
      }
      AddOverKeys<Tile>(rows, key_rows, is_diagonal, scores,
                        values + k * stride, stride,
                        k == 0 ? Write::kSet : Write::kAdd, sums);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const T inverse = T{1} / running.sum[r];
      for (int64_t d = 0; d < dim; ++d)
        out[(q + r) * head.out_stride + d] = sums[r * stride + d] * inverse;
      log_sum_exp[q + r] = running.max[r] + std::log(running.sum[r]);
    }
  }
  ZeroPadding(head, head.out_stride, out);
  for (int64_t q = length; q < head.window; ++q) log_sum_exp[q] = 0;
}

// One row of out: of the query at `place`, which sees the keys up to its own.
// scores [place + 1].
template <typename T>
RM_KERNEL void AttendFrom(const Head<T>& head, int64_t place, T* scores,
                          T* out) {
  const T* const query = head.q + place * head.qkv_stride;
  T max = -std::numeric_limits<T>::infinity();
  for (int64_t key = 0; key <= place; ++key) {
    const T* const k = head.k + key * head.qkv_stride;
    T lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= head.dim; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] += query[i + lane] * k[i + lane];
    }
    for (int64_t lane = 0; i + lane < head.dim; ++lane)
      lanes[lane] += query[i + lane] * k[i + lane];
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t lane = 0; lane < width; ++lane)
        lanes[lane] += lanes[lane + width];
    }
    scores[key] = lanes[0] * head.scale;
    max = scores[key] > max ? scores[key] : max;
  }
  T sum = 0;
  for (int64_t key = 0; key <= place; ++key) {
    scores[key] = FastExp(scores[key] - max);
    sum += scores[key];
  }
  for (int64_t d = 0; d < head.dim; ++d) out[d] = 0;
  for (int64_t key = 0; key <= place; ++key) {
    const T* const value = head.v + key * head.qkv_stride;
    const T weight = scores[key] / sum;
    for (int64_t d = 0; d < head.dim; ++d) out[d] += weight * value[d];
  }
}

// The inputs of backward besides the head.
template <typename T>
struct BackwardInput {
  const T* dout;
  const T* out;
  const T* log_sum_exp;
};

template <typename T>
int64_t BackwardScratchElems(const Head<T>& head) {
  const int64_t window = RoundUp(head.window, kTile);
  return window * (3 * head.padded_dim + 1) + 3 * kTile * head.padded_dim +
         2 * kTile * head.dim + 2 * kTile * kTile;
}

// Turns a row of scores into probabilities as forward left them after dropout,
// and the gradients of those into the gradients of the scores:
// dscore = probability * (dprobability - delta), where delta is the sum over
// keys of probability * dprobability.
template <typename T>
RM_KERNEL void BackwardRow(const Head<T>& head, int64_t visible, int64_t query,
                           int64_t first_key, T log_sum_exp, T delta, T* scores,
                           T* gradients) {
  if (head.mask.threshold == 0) {
    for (int64_t j = 0; j < kTile; ++j) {
      const T p = FastExp(scores[j] - log_sum_exp);
      const T gradient = p * (gradients[j] - delta);
      scores[j] = j < visible ? p : T{0};
      gradients[j] = j < visible ? gradient : T{0};
    }
    return;
  }
  const uint32_t first =
      head.first_elem + static_cast<uint32_t>(query * head.window + first_key);
  for (int64_t j = 0; j < kTile; ++j) {
    const T p = FastExp(scores[j] - log_sum_exp);
    const T keep = IsKept(head.mask, first + static_cast<uint32_t>(j))
                       ? head.keep_scale
                       : T{0};
    const T gradient = p * (keep * gradients[j] - delta);
    scores[j] = j < visible ? keep * p : T{0};
    gradients[j] = j < visible ? gradient : T{0};
  }
}

// deltas [window]: the sum over keys of probability * dprobability is that over
// the head's dimension of out * dout, with or without dropout.
template <typename T>
RM_KERNEL void FindDeltas(const Head<T>& head, BackwardInput<T> input,
                          T* deltas) {
  for (int64_t q = 0; q < head.length; ++q) {
    const T* const out = input.out + q * head.out_stride;
    const T* const dout = input.dout + q * head.out_stride;
    T lanes[kLanes] = {};
    int64_t d = 0;
    for (; d + kLanes <= head.dim; d += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] += out[d + lane] * dout[d + lane];
    }
    for (; d < head.dim; ++d) lanes[0] += out[d] * dout[d];
    T sum = 0;
    for (T lane : lanes) sum += lane;
    deltas[q] = sum;
  }
}

template <typename Tile, typename T>
RM_KERNEL void BackwardHead(Head<T> head, T* scratch, BackwardInput<T> input,
                            T* dq, T* dk, T* dv) {
  const auto [length, dim, stride] =
      std::array{head.length, head.dim, head.padded_dim};
  const int64_t padded_length = RoundUp(length, kTile);
  T* const queries = scratch;
  T* const douts = queries + padded_length * stride;
  T* const dqueries = douts + padded_length * stride;
  T* const keys = dqueries + padded_length * stride;
  T* const dkeys = keys + kTile * stride;
  T* const dvalues = dkeys + kTile * stride;
  T* const transposed_keys = dvalues + kTile * stride;
  T* const transposed_values = transposed_keys + kTile * dim;
  T* const scores = transposed_values + kTile * dim;
  T* const gradients = scores + kTile * kTile;
  T* const deltas = gradients + kTile * kTile;
  // Scaled queries give scaled scores, and gradients of keys.
  CopyRows(length, dim, head.scale, head.q, head.qkv_stride, queries, stride);
  CopyRows(length, dim, T{1}, input.dout, head.out_stride, douts, stride);
  FindDeltas(head, input, deltas);
  for (int64_t k = 0; k < length; k += kTile) {
    const int64_t key_rows = std::min(kTile, length - k);
    const T* const k_rows = head.k + k * head.qkv_stride;
    CopyRows(key_rows, dim, T{1}, k_rows, head.qkv_stride, keys, stride);
    TransposeRows(key_rows, dim, k_rows, head.qkv_stride, transposed_keys);
    TransposeRows(key_rows, dim, head.v + k * head.qkv_stride, head.qkv_stride,
                  transposed_values);
    const int64_t first = head.is_causal ? k : 0;
    for (int64_t q = first; q < length; q += kTile) {
      const int64_t rows = std::min(kTile, length - q);
      const bool is_diagonal = head.is_causal && q == k;
      ScoreTile<Tile>(rows, is_diagonal, dim, queries + q * stride, stride,
                      transposed_keys, scores);
      ScoreTile<Tile>(rows, is_diagonal, dim, douts + q * stride, stride,
                      transposed_values, gradients);
      for (int64_t r = 0; r < rows; ++r) {
        BackwardRow(head, is_diagonal ? r + 1 : key_rows, q + r, k,
                    input.log_sum_exp[q + r], deltas[q + r], scores + r * kTile,
                    gradients + r * kTile);
      }
      const Write over_queries = q == first ? Write::kSet : Write::kAdd;
      AddOverQueries<Tile>(rows, is_diagonal, scores, douts + q * stride,
                           stride, over_queries, dvalues);
      AddOverQueries<Tile>(rows, is_diagonal, gradients, queries + q * stride,
                           stride, over_queries, dkeys);
      AddOverKeys<Tile>(rows, key_rows, is_diagonal, gradients, keys, stride,
                        k == 0 ? Write::kSet : Write::kAdd,
                        dqueries + q * stride);
    }
    CopyRows(key_rows, dim, T{1}, dkeys, stride, dk + k * head.qkv_stride,
             head.qkv_stride);
    CopyRows(key_rows, dim, T{1}, dvalues, stride, dv + k * head.qkv_stride,
             head.qkv_stride);
  }
  CopyRows(length, dim, head.scale, dqueries, stride, dq, head.qkv_stride);
  for (T* const part : {dq, dk, dv}) ZeroPadding(head, head.qkv_stride, part);
}

// Calls block(register tile, head, index of the head among all, offset of its
// queries in qkv, offset in out) for each head of each sample.
template <typename T, typename Block>
void ForEachHead(const Compute& compute, AttentionShape shape,
                 const Dropout& dropout, const T* qkv, Block block) {
  const int64_t dim = shape.head_dim;
  const int64_t width = shape.heads * dim;
  const auto run = [&](auto tile) {
    using Tile = decltype(tile);
    compute.pool.ParallelFor(
        shape.samples * shape.heads, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t sample = i / shape.heads;
            const int64_t h = i % shape.heads;
            const int64_t offset =
                sample * shape.window * shape.qkv_stride() + h * dim;
            const Head<T> head = {
                shape.window,
                shape.lengths == nullptr ? shape.window : shape.lengths[sample],
                shape.is_causal,
                dim,
                RoundUp(dim, Tile::template kCols<T>),
                shape.qkv_stride(),
                width,
                qkv + offset,
                qkv + offset + shape.part_stride(),
                qkv + offset + 2 * shape.part_stride(),
                static_cast<T>(1 / std::sqrt(static_cast<double>(dim))),
                DropoutMaskOf(dropout, sample),
                static_cast<T>(DropoutScale(dropout)),
                static_cast<uint32_t>(h * shape.window * shape.window)};
            block(tile, head, i, offset,
                  sample * shape.window * width + h * dim);
          }
        });
  };
  switch (CurrentIsa()) {
    case CpuIsa::kAvx512:
      return run(Avx512Tile{});
    case CpuIsa::kAvx2:
      return run(Avx2Tile{});
    case CpuIsa::kBaseline:
      return run(BaselineTile{});
  }
}

}  // namespace

template <typename T>
void AttentionForward(const Compute& compute, AttentionShape shape,
                      const Dropout& dropout, const T* qkv, T* out,
                      T* log_sum_exp) {
  ForEachHead(compute, shape, dropout, qkv,
              [&]<typename Tile>(Tile, const Head<T>& head, int64_t index,
                                 int64_t /*offset*/, int64_t out_offset) {
                CallOnCpuFma<ForwardHead<Tile, T>>(
                    head, ThreadScratch<T>(ForwardScratchElems(head)),
                    out + out_offset, log_sum_exp + index * shape.window);
              });
}

template <typename T>
void AttentionOfLast(const Compute& compute, AttentionShape shape,
                     int64_t first, const T* qkv, T* out) {
  const int64_t dim = shape.head_dim;
  const int64_t width = shape.heads * dim;
  compute.pool.ParallelFor(shape.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const T* const q = qkv + h * dim;
      const Head<T> head = {
          shape.window,
          shape.window,
          true,
          dim,
          dim,
          shape.qkv_stride(),
          width,
          q,
          q + shape.part_stride(),
          q + 2 * shape.part_stride(),
          static_cast<T>(1 / std::sqrt(static_cast<double>(dim))),
          DropoutMask(),
          T{1},
          0};
      for (int64_t place = first; place < shape.window; ++place) {
        CallOnCpuFma<AttendFrom<T>>(head, place, ThreadScratch<T>(shape.window),
                                    out + (place - first) * width + h * dim);
      }
    }
  });
}

template <typename T>
void AttentionBackward(const Compute& compute, AttentionShape shape,
                       const Dropout& dropout, const T* dout, const T* qkv,
                       const T* out, const T* log_sum_exp, T* /*scratch*/,
                       T* dqkv) {
  const int64_t part = shape.part_stride();
  ForEachHead(compute, shape, dropout, qkv,
              [&]<typename Tile>(Tile, const Head<T>& head, int64_t index,
                                 int64_t offset, int64_t out_offset) {
                T* const dq = dqkv + offset;
                CallOnCpuFma<BackwardHead<Tile, T>>(
                    head, ThreadScratch<T>(BackwardScratchElems(head)),
                    BackwardInput<T>{dout + out_offset, out + out_offset,
                                     log_sum_exp + index * shape.window},
                    dq, dq + part, dq + 2 * part);
              });
}

#define RM_INSTANTIATE(T)                                                   \
  template void AttentionForward<T>(const Compute&, AttentionShape,         \
                                    const Dropout&, const T*, T*, T*);      \
  template void AttentionOfLast<T>(const Compute&, AttentionShape, int64_t, \
                                   const T*, T*);                           \
  template void AttentionBackward<T>(const Compute&, AttentionShape,        \
                                     const Dropout&, const T*, const T*,    \
                                     const T*, const T*, T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
