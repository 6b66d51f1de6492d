#include <cfloat>
#include <type_traits>

#include "worker/nn/cuda/async_copy.cuh"
#include "worker/nn/cuda/kernel_parts.cuh"
#include "worker/nn/cuda/softmax_cross_entropy.h"

namespace ringmaster::cuda {
namespace {

// Threads of a block that treats one row of a language model.
constexpr int64_t kMostRowThreads = 512;
// Threads of the one block that adds up the results of the rows.
constexpr int kSumThreads = 1024;

template <typename T>
struct Rows {
  int64_t classes;
  int64_t stride;
  const int32_t* targets;
  double* losses;                    // [rows]
  double* correct;                   // [rows], 0 or 1
  ClassOutcome* outcomes = nullptr;  // [rows], of PredictKernel, or null
};

// 2^x to two units in the last place ("PTX ISA", NVIDIA, ex2).
__device__ float PowerOfTwo(float x) {
#ifdef __CUDACC__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

// exp(logit - max) for one max and any number of logits, at two instructions
// each.
class Exponential {
 public:
  __device__ explicit Exponential(float max) : shift_(-max * kLog2E) {}
  __device__ float operator()(float logit) const {
    return PowerOfTwo(fmaf(logit, kLog2E, shift_));
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634f;
  const float shift_;
};

// Below any logit. Not -infinity, nor a number whose product with log2(e) is,
// so that logits of -infinity add 0 and not NaN.
constexpr float kLowest = -FLT_MAX / 2;

// The largest of some logits, and the sum of exp(logit - max).
struct Normalizer {
  float max = kLowest;
  float sum = 0;
};

// A NaN is not larger than anything, but makes the sum NaN; so does +infinity.
template <int kWidth>
__device__ void Add(const Pack<kWidth, float>& logits, Normalizer& to) {
  float max = to.max;
  for (int i = 0; i < kWidth; ++i) max = fmaxf(max, logits.elems[i]);
  const Exponential exponential(max);
  float sum = to.max == max ? to.sum : to.sum * exponential(to.max);
  for (int i = 0; i < kWidth; ++i) sum += exponential(logits.elems[i]);
  to = {max, sum};
}

__device__ Normalizer Joined(Normalizer a, Normalizer b) {
  const float max = a.max > b.max ? a.max : b.max;
  return {max, a.sum * __expf(a.max - max) + b.sum * __expf(b.max - max)};
}

// The normalizer of all of the block's threads, for each of them; joined in a
// fixed order.
__device__ Normalizer JoinedInBlock(Normalizer own, float2* warps) {
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
    const float max = __shfl_xor_sync(0xffffffffu, own.max, lanes);
    const float sum = __shfl_xor_sync(0xffffffffu, own.sum, lanes);
    own = Joined(own, {max, sum});
  }
  if (threadIdx.x % kWarpThreads == 0)
    warps[threadIdx.x / kWarpThreads] = {own.max, own.sum};
  __syncthreads();
  Normalizer all = {warps[0].x, warps[0].y};
  for (unsigned warp = 1; warp < blockDim.x / kWarpThreads; ++warp)
    all = Joined(all, {warps[warp].x, warps[warp].y});
  return all;
}

// Copies the thread's packs of a row, the same as ForEachPack's, to shared
// memory: all of them are under way at once.
template <int kWidth, typename T>
__device__ void Keep(int64_t classes, const T* row, T* kept) {
  const int64_t packed = classes / kWidth * kWidth;
  const int64_t stride = static_cast<int64_t>(blockDim.x) * kWidth;
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kWidth; i < packed;
       i += stride) {
    if constexpr (kWidth * sizeof(T) == 16) {
      CopyAsync<kWidth>(row + i, kept + i);
    } else {
      StorePack(LoadPack<kWidth>(row + i), kept + i);
    }
  }
  for (int64_t i = packed + threadIdx.x; i < classes; i += blockDim.x)
    kept[i] = row[i];
  CommitCopies();
}

// Calls each(column, pack) for the thread's packs of a row of `classes`, as
// they lie in memory, and rest(column) for what does not fill one. Several
// loads are under way at once.
template <int kWidth, typename T, typename Each, typename Rest>
__device__ void ForEachPack(int64_t classes, T* row, const Each& each,
                            const Rest& rest) {
  constexpr int kLoads = 2;
  const int64_t packed = classes / kWidth * kWidth;
  const int64_t stride = static_cast<int64_t>(blockDim.x) * kWidth;
  int64_t i = static_cast<int64_t>(threadIdx.x) * kWidth;
  for (; i + (kLoads - 1) * stride < packed; i += kLoads * stride) {
    Pack<kWidth, std::remove_const_t<T>> loaded[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      loaded[k] =
          LoadPack<kWidth, std::remove_const_t<T>>(row + i + k * stride);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) each(i + k * stride, loaded[k]);
  }
  for (; i < packed; i += stride)
    each(i, LoadPack<kWidth, std::remove_const_t<T>>(row + i));
  for (int64_t i = packed + threadIdx.x; i < classes; i += blockDim.x) rest(i);
}

__device__ double LossOf(Normalizer normalizer, float target_logit) {
  return log(static_cast<double>(normalizer.sum)) -
         (static_cast<double>(target_logit) -
          static_cast<double>(normalizer.max));
}

// The cross entropy with smoothed labels; `mean_below` is the mean of all logits less
// the largest.
__device__ double SmoothLossOf(Normalizer normalizer, float target_logit,
                               double mean_below, double smoothing) {
  return log(static_cast<double>(normalizer.sum)) -
         (1 - smoothing) * (static_cast<double>(target_logit) -
                            static_cast<double>(normalizer.max)) -
         smoothing * mean_below;
}

// The sum of a row's logits less `max`, for the block's first thread. One more sweep:
// the largest is not known in the first.
template <int kWidth, typename T>
__device__ double SumBelow(int64_t classes, T* row, float max, double* warps) {
  float own = 0;
  ForEachPack<kWidth>(
      classes, row,
      [&](int64_t, const Pack<kWidth, T>& pack) {
        const Pack<kWidth, float> logits = FloatsOf(pack);
        for (int i = 0; i < kWidth; ++i) own += logits.elems[i] - max;
      },
      [&](int64_t column) { own += ToFloat(row[column]) - max; });
  return BlockSum(static_cast<double>(own), warps);
}

// A block for each row, which is kept in shared memory if `is_kept`. (Its second
// sweep would find little of it in a cache that all blocks share.) Each thread
// reads just what it has kept itself. Two blocks fit a multiprocessor, and one
// loads its row while the other computes.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kMostRowThreads, 2)
    TrainKernel(Rows<T> run, bool is_kept, const DeviceLossTerms* terms,
                T* logits) {
  __shared__ float2 warps[kMaxWarps];
  __shared__ double sum_warps[kMaxWarps];
  T* const row = logits + blockIdx.x * run.stride;
  T* const kept = is_kept ? DynamicShared<T>() : row;
  if (is_kept) Keep<kWidth>(run.classes, row, kept);
  const int64_t target = run.targets[blockIdx.x];
  // Read before the row is written, which the block does after a barrier.
  const float target_logit = ToFloat(row[target]);
  if (is_kept) AwaitCopies<0>();
  Normalizer own;
  ForEachPack<kWidth>(
      run.classes, kept,
      [&](int64_t, const Pack<kWidth, T>& pack) { Add(FloatsOf(pack), own); },
      [&](int64_t column) { Add(LoadFloats<1>(kept + column), own); });
  const Normalizer normalizer = JoinedInBlock(own, warps);
  const float smoothing = terms->smoothing;
  if (smoothing > 0) {  // for all threads alike
    const double below =
        SumBelow<kWidth>(run.classes, kept, normalizer.max, sum_warps);
    if (threadIdx.x == 0) {
      run.losses[blockIdx.x] = SmoothLossOf(
          normalizer, target_logit, below / static_cast<double>(run.classes),
          static_cast<double>(smoothing));
    }
  } else if (threadIdx.x == 0) {
    run.losses[blockIdx.x] = LossOf(normalizer, target_logit);
  }
  const float factor = terms->scale / normalizer.sum;
  // The target's share at each class, and at its own.
  const float each = terms->scale * smoothing / static_cast<float>(run.classes);
  const float at_target = terms->scale * (1 - smoothing);
  const Exponential exponential(normalizer.max);
  ForEachPack<kWidth>(
      run.classes, kept,
      [&](int64_t column, const Pack<kWidth, T>& pack) {
        Pack<kWidth, float> gradients = FloatsOf(pack);
        for (int i = 0; i < kWidth; ++i)
          gradients.elems[i] = exponential(gradients.elems[i]) * factor - each;
        // It is in one pack of the row alone.
        const int64_t place = target - column;
        if (place >= 0 && place < kWidth) {
          for (int i = 0; i < kWidth; ++i)
            gradients.elems[i] -= i == place ? at_target : 0.0f;
        }
        StoreFloats(gradients, row + column);
      },
      [&](int64_t column) {
        row[column] = RoundTo<T>(exponential(ToFloat(kept[column])) * factor -
                                 each - (column == target ? at_target : 0.0f));
      });
  for (int64_t i = run.classes + threadIdx.x; i < run.stride; i += blockDim.x)
    row[i] = RoundTo<T>(0.0f);
}

// The smallest of all of the block's threads' values, for each of them. `warps` as
// in BlockSum.
__device__ int BlockMin(int value, int* warps) {
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
    const int other = __shfl_xor_sync(0xffffffffu, value, lanes);
    value = other < value ? other : value;
  }
  if (threadIdx.x % kWarpThreads == 0)
    warps[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  int least = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarpThreads; ++warp)
    least = warps[warp] < least ? warps[warp] : least;
  return least;
}

// A block for each row.
template <int kWidth, typename T>
__global__ void PredictKernel(Rows<T> run, const T* logits) {
  __shared__ float2 warps[kMaxWarps];
  const T* const row = logits + blockIdx.x * run.stride;
  const int64_t target = run.targets[blockIdx.x];
  const float target_logit = ToFloat(row[target]);
  // Written so that NaN, which is not less than anything, counts as a rival.
  const auto is_rival = [&](int64_t column, float logit) {
    if (column == target) return !(logit == logit);
    return column < target ? !(logit < target_logit) : !(logit <= target_logit);
  };
  Normalizer own;
  int rivals = 0;
  ForEachPack<kWidth>(
      run.classes, row,
      [&](int64_t column, const Pack<kWidth, T>& pack) {
        const Pack<kWidth, float> logit = FloatsOf(pack);
        Add(logit, own);
        for (int i = 0; i < kWidth; ++i)
          rivals += is_rival(column + i, logit.elems[i]) ? 1 : 0;
      },
      [&](int64_t column) {
        const Pack<1, float> pack = LoadFloats<1>(row + column);
        Add(pack, own);
        rivals += is_rival(column, pack.elems[0]) ? 1 : 0;
      });
  const Normalizer normalizer = JoinedInBlock(own, warps);
  const bool is_beaten = __syncthreads_or(rivals) != 0;
  if (threadIdx.x == 0) {
    run.losses[blockIdx.x] = LossOf(normalizer, target_logit);
    run.correct[blockIdx.x] = is_beaten ? 0 : 1;
  }
  if (run.outcomes == nullptr) return;  // for all threads alike
  // One more sweep, for few classes: the largest logit is known only now.
  const int classes = static_cast<int>(run.classes);
  int first = classes;
  for (int column = static_cast<int>(threadIdx.x); column < classes;
       column += static_cast<int>(blockDim.x)) {
    if (first == classes && ToFloat(row[column]) == normalizer.max)
      first = column;
  }
  __shared__ double rival_warps[kMaxWarps];
  __shared__ int first_warps[kMaxWarps];
  const double all_rivals = BlockSum(static_cast<double>(rivals), rival_warps);
  const int predicted = BlockMin(first, first_warps);
  if (threadIdx.x != 0) return;
  // Where all are -infinity or not numbers, none is the largest.
  run.outcomes[blockIdx.x] = {predicted < classes ? predicted : 0,
                              static_cast<int32_t>(all_rivals)};
}

// *loss_sum += the sum of `losses`; *correct += that of `correct_rows`, if they
// are not null. One block.
__global__ void SumRowsKernel(int64_t rows, const double* losses,
                              const double* correct_rows, double* loss_sum,
                              int64_t* correct) {
  __shared__ double warps[2 * kMaxWarps];
  double loss = 0;
  double count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    loss += losses[i];
    if (correct_rows != nullptr) count += correct_rows[i];
  }
  loss = BlockSum(loss, warps);
  count = BlockSum(count, warps + kMaxWarps);
  if (threadIdx.x != 0) return;
  *loss_sum += loss;
  if (correct != nullptr) *correct += static_cast<int64_t>(count);
}

unsigned RowThreads(int64_t packs) {
  return BlockThreads(std::min(packs, kMostRowThreads));
}

// The bytes of shared memory that keep a row between its sweeps; 0 if two
// blocks with that many would not fit a multiprocessor.
template <typename T>
size_t KeptBytes(CudaStream& stream, int64_t classes) {
  // CUDA keeps a kilobyte of each block's, and a block has arrays of its own.
  constexpr int64_t kBesides = 2048;
  int device = 0;
  int most = 0;
  stream.Check(cudaGetDevice(&device), "cudaGetDevice");
  stream.Check(cudaDeviceGetAttribute(
                   &most, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
               "cudaDeviceGetAttribute");
  const int64_t bytes = classes * static_cast<int64_t>(sizeof(T));
  return 2 * (bytes + kBesides) <= most ? static_cast<size_t>(bytes) : 0;
}

template <typename T>
bool IsPacked(const T* logits, int64_t row_stride) {
  return ArePacked(logits) && row_stride % kPackElems<T> == 0;
}

}  // namespace

int64_t SoftmaxCrossEntropyScratchElems(int64_t rows) { return 2 * rows; }

template <typename T>
void SoftmaxCrossEntropyTrain(CudaStream& stream, int64_t rows, int64_t classes,
                              int64_t row_stride, const DeviceLossTerms* terms,
                              const int32_t* targets, T* logits,
                              double* scratch, double* loss_sum) {
  if (rows == 0) return;  // a grid of 0 blocks is an error
  const Rows<T> run = {classes, row_stride, targets, scratch, nullptr};
  const dim3 grid(static_cast<unsigned>(rows));
  constexpr int kWidth = kPackElems<T>;
  const size_t kept = KeptBytes<T>(stream, classes);
  stream.Check(
      IsPacked(logits, row_stride)
          ? LaunchKernel(TrainKernel<kWidth, T>, grid,
                         dim3(RowThreads(classes / kWidth)), kept, stream.get(),
                         run, kept > 0, terms, logits)
          : LaunchKernel(TrainKernel<1, T>, grid, dim3(RowThreads(classes)),
                         kept, stream.get(), run, kept > 0, terms, logits),
      "softmax_cross_entropy_train");
  stream.Check(
      LaunchKernel(SumRowsKernel, dim3(1), dim3(kSumThreads), 0, stream.get(),
                   rows, scratch, nullptr, loss_sum, nullptr),
      "softmax_cross_entropy_train of all rows");
}

template <typename T>
void SoftmaxCrossEntropyPredict(CudaStream& stream, int64_t rows,
                                int64_t classes, int64_t row_stride,
                                const int32_t* targets, const T* logits,
                                double* scratch, double* loss_sum,
                                int64_t* correct, ClassOutcome* outcomes) {
  if (rows == 0) return;
  const Rows<T> run = {classes, row_stride,     targets,
                       scratch, scratch + rows, outcomes};
  const dim3 grid(static_cast<unsigned>(rows));
  constexpr int kWidth = kPackElems<T>;
  stream.Check(
      IsPacked(logits, row_stride)
          ? LaunchKernel(PredictKernel<kWidth, T>, grid,
                         dim3(RowThreads(classes / kWidth)), 0, stream.get(),
                         run, logits)
          : LaunchKernel(PredictKernel<1, T>, grid, dim3(RowThreads(classes)),
                         0, stream.get(), run, logits),
      "softmax_cross_entropy_predict");
  stream.Check(
      LaunchKernel(SumRowsKernel, dim3(1), dim3(kSumThreads), 0, stream.get(),
                   rows, scratch, scratch + rows, loss_sum, correct),
      "softmax_cross_entropy_predict of all rows");
}

#define RM_INSTANTIATE(T)                                               \
  template void SoftmaxCrossEntropyTrain<T>(                            \
      CudaStream&, int64_t, int64_t, int64_t, const DeviceLossTerms*,   \
      const int32_t*, T*, double*, double*);                            \
  template void SoftmaxCrossEntropyPredict<T>(                          \
      CudaStream&, int64_t, int64_t, int64_t, const int32_t*, const T*, \
      double*, double*, int64_t*, ClassOutcome*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
