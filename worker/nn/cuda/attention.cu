#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/device/cuda/kernel.cuh"
#include "worker/nn/cuda/attention.h"
#include "worker/nn/cuda/attention_tile.cuh"
#include "worker/nn/cuda/dropout_mask.cuh"

namespace ringmaster::cuda {
namespace {

using namespace attention;  // NOLINT: the other half of this file

// Exponentials are powers of two, which the hardware has.
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// So that the tiles of a block are at most 48 KiB, which every GPU has without
// being asked, and its sums stay in registers.
template <int kDim>
struct Tilings;
template <>
struct Tilings<64> {
  using Forward = Tiling<64, 64, 32, 16>;
  using Backward = Tiling<64, 32, 32, 16>;
};
template <>
struct Tilings<128> {
  using Forward = Tiling<128, 32, 32, 16>;
  using Backward = Tiling<128, 16, 32, 16>;
};
template <>
struct Tilings<256> {
  using Forward = Tiling<256, 16, 16, 16>;
  using Backward = Tiling<256, 8, 16, 8>;
};

template <typename Tile>
constexpr size_t kForwardBytes = (Tile::kOwnElems + Tile::kOtherElems +
                                  Tile::kWeightElems) *
                                 sizeof(float);
template <typename Tile>
constexpr size_t kBackwardBytes = (2 * Tile::kOwnElems + Tile::kOtherElems +
                                   Tile::kWeightElems) *
                                  sizeof(float);

// The arguments that all kernels get.
struct Problem {
  int64_t window;
  int heads;
  int dim;
  bool is_packed;  // rows can be loaded by fours
  bool is_causal;
  const int32_t* lengths;  // see AttentionShape
  int64_t qkv_stride;
  int64_t part_stride;
  float scale;  // 1/sqrt(dim)
  DropoutKey dropout;
};

// The head that a block works on: that of blockIdx.x.
struct Head {
  __device__ explicit Head(const Problem& problem)
      : sample(blockIdx.x / problem.heads),
        head(static_cast<int>(blockIdx.x % problem.heads)),
        length(problem.lengths == nullptr ? problem.window
                                          : problem.lengths[sample]),
        is_causal(problem.is_causal),
        width(static_cast<int64_t>(problem.heads) * problem.dim),
        qkv(sample * problem.window * problem.qkv_stride + head * problem.dim),
        out(sample * problem.window * width + head * problem.dim),
        rows(blockIdx.x * problem.window),
        first_elem(
            static_cast<uint32_t>(head * problem.window * problem.window)) {}
  // Whether the query may look at the key.
  __device__ bool Sees(int64_t query, int64_t key) const {
    return key < length && (key <= query || !is_causal);
  }
  // The keys that somebody sees of the queries [first, first + rows).
  __device__ int64_t KeysEnd(int64_t first, int64_t rows) const {
    if (first >= length) return 0;
    return is_causal && first + rows < length ? first + rows : length;
  }
  int64_t sample;
  int head;
  int64_t length;  // rows that are not padding
  bool is_causal;
  int64_t width;        // from one row of out to the next
  int64_t qkv;          // where its queries begin
  int64_t out;          // where it begins in out
  int64_t rows;         // where it begins in log_sum_exp
  uint32_t first_elem;  // of its probabilities, for dropout
};

// The factor that dropout multiplies a probability by: 0, or 1 / (1 - rate).
struct Keep {
  __device__ Keep(const Problem& problem, const Head& head)
      : scale(problem.dropout.scale),
        window(static_cast<uint32_t>(problem.window)),
        first_elem(head.first_elem) {
    mask = DropoutMaskOf(problem.dropout, head.sample);
  }
  __device__ float At(int64_t query, int64_t key) const {
    if (mask.threshold == 0) return 1.0f;
    const uint32_t elem = first_elem + static_cast<uint32_t>(query) * window +
                          static_cast<uint32_t>(key);
    return IsKept(mask, elem) ? scale : 0.0f;
  }
  DropoutMask mask;
  float scale;
  uint32_t window;
  uint32_t first_elem;
};

// The running softmax (Milakov & Gimelshein, 2018) of this thread's rows.
// `max` is in units of log2; a lane's `sum` is over its own columns.
template <typename Tile>
struct RunningSoftmax {
  __device__ RunningSoftmax() {
    for (int i = 0; i < Tile::kRows; ++i) max[i] = -INFINITY;
  }
  // Turns scores of row i into 2^(score - max), and scales what was summed up
  // before by the change of max.
  __device__ void Add(int i, float (&scores)[Tile::kCols], Sums<Tile>& sums) {
    float new_max = max[i];
    for (float score : scores) new_max = fmaxf(new_max, score);
    new_max = MaxOverLanes(new_max);
    const float factor = exp2f(max[i] - new_max);
    max[i] = new_max;
    sum[i] *= factor;
    for (float& score : scores) {
      score = exp2f(score - new_max);
      sum[i] += score;
    }
    for (float& elem : sums.at[i]) elem *= factor;
  }
  float max[Tile::kRows];
  float sum[Tile::kRows] = {};
};

// One block: a tile of queries, and all keys that they see.
template <typename Tile, typename T>
__global__ void ForwardKernel(Problem problem, const T* qkv, T* out,
                              float* log_sum_exp) {
  float* const own = DynamicShared<float>();
  float* const other = own + Tile::kOwnElems;
  float* const weights = other + Tile::kOtherElems;
  const Head head(problem);
  const Keep keep(problem, head);
  // Those that have the most keys begin first.
  const int64_t first =
      static_cast<int64_t>(gridDim.y - 1 - blockIdx.y) * Tile::kOwnRows;
  const int64_t stride = problem.qkv_stride;
  const T* const queries = qkv + head.qkv;
  const T* const keys = queries + problem.part_stride;
  const T* const values = keys + problem.part_stride;
  const int64_t end = head.KeysEnd(first, Tile::kOwnRows);
  LoadTile<Tile, Tile::kOwnRows>(queries + first * stride, head.length - first,
                                 stride, problem.dim, problem.is_packed, own);
  RunningSoftmax<Tile> softmax;
  Sums<Tile> sums;
  for (int64_t k = 0; k < end; k += Tile::kOtherRows) {
    LoadTile<Tile, Tile::kOtherRows>(keys + k * stride, head.length - k, stride,
                                     problem.dim, problem.is_packed, other);
    __syncthreads();
    Scores<Tile> scores = Multiply<Tile>(own, other);
    __syncthreads();
    LoadTile<Tile, Tile::kOtherRows>(values + k * stride, head.length - k,
                                     stride, problem.dim, problem.is_packed,
                                     other);
    for (int i = 0; i < Tile::kRows; ++i) {
      const int64_t query = first + OwnRow<Tile>(i);
      for (int j = 0; j < Tile::kCols; ++j) {
        const bool is_visible = head.Sees(query, k + OtherRow<Tile>(j));
        scores.at[i][j] =
            is_visible ? scores.at[i][j] * (problem.scale * kLog2E) : -INFINITY;
      }
      softmax.Add(i, scores.at[i], sums);
      for (int j = 0; j < Tile::kCols; ++j)
        scores.at[i][j] *= keep.At(query, k + OtherRow<Tile>(j));
    }
    StoreWeights<Tile>(scores, weights);
    __syncthreads();
    AddProduct<Tile>(weights, other, sums);
    __syncthreads();
  }
  for (int i = 0; i < Tile::kRows; ++i) {
    softmax.sum[i] = SumOverLanes(softmax.sum[i]);
    const int64_t query = first + OwnRow<Tile>(i);
    if (query < problem.window && Lane<Tile>() == 0) {
      log_sum_exp[head.rows + query] =
          query < head.length ? softmax.max[i] * kLn2 + logf(softmax.sum[i])
                              : 0.0f;
    }
  }
  StoreRows<Tile>(
      sums,
      [&](int i) {
        const int64_t query = first + OwnRow<Tile>(i);
        return query < head.length ? 1.0f / softmax.sum[i] : 0.0f;
      },
      problem.window - first, head.width, problem.dim,
      out + head.out + first * head.width);
}

// The inputs of backward, and deltas [samples,heads,window]: the sum over keys
// of probability * dprobability, which equals the sum over the head's dimension
// of out * dout, with or without dropout.
template <typename T>
struct BackwardInput {
  const T* dout;
  const T* qkv;
  const T* out;
  const float* log_sum_exp;
  float* deltas;
};

// The gradient of a score, before the factor of 1/sqrt(dim).
struct ScoreGradient {
  float weight;    // the probability as forward left it after dropout
  float gradient;  // of the score
};
__device__ inline ScoreGradient FindGradient(float score, float dweight,
                                             float log_sum_exp, float delta,
                                             float keep) {
  const float p = exp2f((score - log_sum_exp) * kLog2E);
  return {p * keep, p * (keep * dweight - delta)};
}

// One block: a tile of queries, and all keys that they see. dq =, deltas =.
template <typename Tile, typename T>
__global__ void QueryGradientKernel(Problem problem, BackwardInput<T> input,
                                    T* dqkv) {
  float* const own_queries = DynamicShared<float>();
  float* const own_douts = own_queries + Tile::kOwnElems;
  float* const other = own_douts + Tile::kOwnElems;
  float* const weights = other + Tile::kOtherElems;
  const Head head(problem);
  const Keep keep(problem, head);
  const int64_t first =
      static_cast<int64_t>(gridDim.y - 1 - blockIdx.y) * Tile::kOwnRows;
  const int64_t rows = head.length - first;
  const int64_t stride = problem.qkv_stride;
  const T* const queries = input.qkv + head.qkv;
  const T* const keys = queries + problem.part_stride;
  const T* const values = keys + problem.part_stride;
  const int64_t place = head.out + first * head.width;
  LoadTile<Tile, Tile::kOwnRows>(queries + first * stride, rows, stride,
                                 problem.dim, problem.is_packed, own_queries);
  LoadTile<Tile, Tile::kOwnRows>(input.dout + place, rows, head.width,
                                 problem.dim, problem.is_packed, own_douts);
  __syncthreads();
  float delta[Tile::kRows] = {};
  float log_sum_exp[Tile::kRows] = {};
  for (int i = 0; i < Tile::kRows; ++i) {
    const int row = OwnRow<Tile>(i);
    if (row < rows) {
      log_sum_exp[i] = input.log_sum_exp[head.rows + first + row];
      for (int d = Lane<Tile>(); d < problem.dim; d += kLanes) {
        delta[i] += ToFloat(input.out[place + row * head.width + d]) *
                    own_douts[row * Tile::kStride + d];
      }
    }
    delta[i] = SumOverLanes(delta[i]);
    if (row < rows && Lane<Tile>() == 0)
      input.deltas[head.rows + first + row] = delta[i];
  }
  const int64_t end = head.KeysEnd(first, Tile::kOwnRows);
  Sums<Tile> sums;
  for (int64_t k = 0; k < end; k += Tile::kOtherRows) {
    LoadTile<Tile, Tile::kOtherRows>(values + k * stride, head.length - k,
                                     stride, problem.dim, problem.is_packed,
                                     other);
    __syncthreads();
    const Scores<Tile> dweights = Multiply<Tile>(own_douts, other);
    __syncthreads();
    LoadTile<Tile, Tile::kOtherRows>(keys + k * stride, head.length - k, stride,
                                     problem.dim, problem.is_packed, other);
    __syncthreads();
    Scores<Tile> scores = Multiply<Tile>(own_queries, other);
    for (int i = 0; i < Tile::kRows; ++i) {
      const int64_t query = first + OwnRow<Tile>(i);
      for (int j = 0; j < Tile::kCols; ++j) {
        const int64_t key = k + OtherRow<Tile>(j);
        const bool is_visible = head.Sees(query, key) && query < head.length;
        scores.at[i][j] = is_visible
                              ? FindGradient(scores.at[i][j] * problem.scale,
                                             dweights.at[i][j], log_sum_exp[i],
                                             delta[i], keep.At(query, key))
                                    .gradient
                              : 0.0f;
      }
    }
    StoreWeights<Tile>(scores, weights);
    __syncthreads();
    AddProduct<Tile>(weights, other, sums);
    __syncthreads();
  }
  StoreRows<Tile>(
      sums, [&](int) { return problem.scale; }, problem.window - first, stride,
      problem.dim, dqkv + head.qkv + first * stride);
}

// One block: a tile of keys, and all queries that see them. dk =, dv =; after
// QueryGradientKernel, for its deltas.
template <typename Tile, typename T>
__global__ void KeyGradientKernel(Problem problem, BackwardInput<T> input,
                                  T* dqkv) {
  float* const own_keys = DynamicShared<float>();
  float* const own_values = own_keys + Tile::kOwnElems;
  float* const other = own_values + Tile::kOwnElems;
  float* const weights = other + Tile::kOtherElems;
  const Head head(problem);
  const Keep keep(problem, head);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * Tile::kOwnRows;
  const int64_t rows = head.length - first;
  const int64_t stride = problem.qkv_stride;
  const T* const queries = input.qkv + head.qkv;
  const T* const keys = queries + problem.part_stride + first * stride;
  LoadTile<Tile, Tile::kOwnRows>(keys, rows, stride, problem.dim,
                                 problem.is_packed, own_keys);
  LoadTile<Tile, Tile::kOwnRows>(keys + problem.part_stride, rows, stride,
                                 problem.dim, problem.is_packed, own_values);
  Sums<Tile> dkeys;
  Sums<Tile> dvalues;
  const int64_t begin =
      head.is_causal ? first / Tile::kOtherRows * Tile::kOtherRows : 0;
  const int64_t end = rows > 0 ? head.length : 0;
  for (int64_t q = begin; q < end; q += Tile::kOtherRows) {
    const int64_t query_rows = head.length - q;
    LoadTile<Tile, Tile::kOtherRows>(queries + q * stride, query_rows, stride,
                                     problem.dim, problem.is_packed, other);
    __syncthreads();
    Scores<Tile> scores = Multiply<Tile>(own_keys, other);
    __syncthreads();
    LoadTile<Tile, Tile::kOtherRows>(input.dout + head.out + q * head.width,
                                     query_rows, head.width, problem.dim,
                                     problem.is_packed, other);
    __syncthreads();
    Scores<Tile> gradients = Multiply<Tile>(own_values, other);
    for (int j = 0; j < Tile::kCols; ++j) {
      const int64_t query = q + OtherRow<Tile>(j);
      const bool is_query = query < head.length;
      const float log_sum_exp =
          is_query ? input.log_sum_exp[head.rows + query] : 0.0f;
      const float delta = is_query ? input.deltas[head.rows + query] : 0.0f;
      for (int i = 0; i < Tile::kRows; ++i) {
        const int64_t key = first + OwnRow<Tile>(i);
        ScoreGradient found = {0.0f, 0.0f};
        if (is_query && head.Sees(query, key)) {
          found =
              FindGradient(scores.at[i][j] * problem.scale, gradients.at[i][j],
                           log_sum_exp, delta, keep.At(query, key));
        }
        scores.at[i][j] = found.weight;
        gradients.at[i][j] = found.gradient;
      }
    }
    StoreWeights<Tile>(scores, weights);
    __syncthreads();
    AddProduct<Tile>(weights, other, dvalues);
    __syncthreads();
    StoreWeights<Tile>(gradients, weights);
    LoadTile<Tile, Tile::kOtherRows>(queries + q * stride, query_rows, stride,
                                     problem.dim, problem.is_packed, other);
    __syncthreads();
    AddProduct<Tile>(weights, other, dkeys);
    __syncthreads();
  }
  T* const to = dqkv + head.qkv + problem.part_stride + first * stride;
  const int64_t stored = problem.window - first;
  StoreRows<Tile>(
      dkeys, [&](int) { return problem.scale; }, stored, stride, problem.dim,
      to);
  StoreRows<Tile>(
      dvalues, [&](int) { return 1.0f; }, stored, stride, problem.dim,
      to + problem.part_stride);
}

// The problem for operands at these addresses.
template <typename... T>
Problem ProblemOf(AttentionShape shape, const DeviceDropout& dropout,
                  const T*... operands) {
  return {
      shape.window,
      static_cast<int>(shape.heads),
      static_cast<int>(shape.head_dim),
      shape.head_dim % 4 == 0 && ArePacked(operands...),
      shape.is_causal,
      shape.lengths,
      shape.qkv_stride(),
      shape.part_stride(),
      static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim))),
      DropoutKeyOf(dropout)};
}

template <typename Tile>
dim3 GridOf(AttentionShape shape) {
  return dim3(static_cast<unsigned>(shape.samples * shape.heads),
              static_cast<unsigned>((shape.window + Tile::kOwnRows - 1) /
                                    Tile::kOwnRows));
}

// Calls run(tilings of the head's size).
template <typename Run>
void ForHeadDim(CudaStream& stream, AttentionShape shape, Run run) {
  if (shape.samples == 0 || shape.window == 0) return;
  if (shape.head_dim <= 64) return run(Tilings<64>{});
  if (shape.head_dim <= 128) return run(Tilings<128>{});
  if (shape.head_dim <= kMaxHeadDim) return run(Tilings<256>{});
  stream.Note(absl::UnimplementedError(
      absl::StrCat("attention on a GPU has heads of at most ", kMaxHeadDim,
                   " dimensions; this model's have ", shape.head_dim,
                   ": choose more heads")));
}

}  // namespace

template <typename T>
void TiledAttentionForward(CudaStream& stream, AttentionShape shape,
                           const DeviceDropout& dropout, const T* qkv, T* out,
                           float* log_sum_exp) {
  ForHeadDim(stream, shape, [&]<typename Tilings>(Tilings) {
    using Tile = typename Tilings::Forward;
    stream.Check(
        LaunchKernel(ForwardKernel<Tile, T>, GridOf<Tile>(shape),
                     dim3(Tile::kThreads), kForwardBytes<Tile>, stream.get(),
                     ProblemOf(shape, dropout, qkv), qkv, out, log_sum_exp),
        "attention, forward");
  });
}

template <typename T>
void TiledAttentionBackward(CudaStream& stream, AttentionShape shape,
                            const DeviceDropout& dropout, const T* dout,
                            const T* qkv, const T* out,
                            const float* log_sum_exp, float* scratch, T* dqkv) {
  ForHeadDim(stream, shape, [&]<typename Tilings>(Tilings) {
    using Tile = typename Tilings::Backward;
    const BackwardInput<T> input = {dout, qkv, out, log_sum_exp, scratch};
    for (auto* kernel :
         {QueryGradientKernel<Tile, T>, KeyGradientKernel<Tile, T>}) {
      stream.Check(
          LaunchKernel(kernel, GridOf<Tile>(shape), dim3(Tile::kThreads),
                       kBackwardBytes<Tile>, stream.get(),
                       ProblemOf(shape, dropout, qkv, dout), input, dqkv),
          "attention, backward");
    }
  });
}

#define RM_INSTANTIATE(T)                                                    \
  template void TiledAttentionForward<T>(CudaStream&, AttentionShape,        \
                                         const DeviceDropout&, const T*, T*, \
                                         float*);                            \
  template void TiledAttentionBackward<T>(                                   \
      CudaStream&, AttentionShape, const DeviceDropout&, const T*, const T*, \
      const T*, const float*, float*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
