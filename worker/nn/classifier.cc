#include "worker/nn/classifier.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/fast_exp.h"
#include "worker/nn/linear.h"

namespace ringmaster {
namespace {

// The most elements of a chunk's logits, 16 MiB of floats, unless kLeastRows
// rows have more: weights are read again for each chunk, so that with 50257
// classes chunks of 64 rows take half as long again as chunks of 256, whose
// logits are a third of the weights' size.
constexpr int64_t kChunkElems = 1 << 22;
constexpr int64_t kLeastRows = 256;
constexpr int64_t kMostRows = 1024;
// Rows of a chunk are rounded up to a multiple of this.
constexpr int64_t kRowUnit = 16;

// Independent partial results, which let the compiler vectorize a reduction
// without reordering it.
constexpr int64_t kLanes = 32;
// Logits that stay in the first cache between the search for their largest one
// and their sum.
constexpr int64_t kSweepElems = 1024;

template <typename T>
RM_KERNEL T MaxOf(const T* x, int64_t count, T start) {
  T lanes[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = start;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  }
  for (; i < count; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  for (int64_t lane = 1; lane < kLanes; ++lane)
    lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
  return lanes[0];
}

// The sum of exp(x - max).
template <typename T>
RM_KERNEL T SumOfExp(const T* x, int64_t count, T max) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += FastExp(x[i + lane] - max);
  }
  for (; i < count; ++i) lanes[0] += FastExp(x[i] - max);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane)
      lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// The largest logit of a row, and the sum of exp(logit - max).
template <typename T>
struct Normalizer {
  T max;
  T sum;
};

// In one sweep: when a larger logit turns up, the sum so far is scaled down.
template <typename T>
RM_KERNEL Normalizer<T> FindNormalizer(int64_t classes, const T* row) {
  Normalizer<T> found = {row[0], 0};
  for (int64_t i = 0; i < classes; i += kSweepElems) {
    const int64_t count = std::min(kSweepElems, classes - i);
    const T max = MaxOf(row + i, count, found.max);
    found.sum =
        found.sum * FastExp(found.max - max) + SumOfExp(row + i, count, max);
    found.max = max;
  }
  return found;
}

template <typename T>
RM_KERNEL double LossOf(Normalizer<T> normalizer, T target_logit) {
  return std::log(static_cast<double>(normalizer.sum)) -
         static_cast<double>(target_logit - normalizer.max);
}

// The sum of x - max.
template <typename T>
RM_KERNEL T SumBelow(const T* x, int64_t count, T max) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += x[i + lane] - max;
  }
  for (; i < count; ++i) lanes[0] += x[i] - max;
  for (int64_t lane = 1; lane < kLanes; ++lane) lanes[0] += lanes[lane];
  return lanes[0];
}

// A row's target: so much at the class itself, and so much at each.
struct Target {
  double own = 1;
  double each = 0;
};

// The cross entropy with a target whose shares add up to 1.
template <typename T>
RM_KERNEL double SmoothLossOf(Normalizer<T> normalizer, int64_t classes,
                              const T* row, T target_logit, Target target) {
  return std::log(static_cast<double>(normalizer.sum)) -
         target.own * static_cast<double>(target_logit - normalizer.max) -
         target.each *
             static_cast<double>(SumBelow(row, classes, normalizer.max));
}

// Turns a row of logits into scale * (softmax(row) - target); returns the row's
// loss.
template <typename T>
RM_KERNEL double TrainRow(int64_t classes, int32_t target, T scale,
                          Target shares, T* __restrict row) {
  const Normalizer<T> normalizer = FindNormalizer(classes, row);
  const double loss =
      shares.each == 0
          ? LossOf(normalizer, row[target])
          : SmoothLossOf<T>(normalizer, classes, row, row[target], shares);
  const T factor = scale / normalizer.sum;
  const T each = scale * static_cast<T>(shares.each);
  for (int64_t i = 0; i < classes; ++i)
    row[i] = FastExp(row[i] - normalizer.max) * factor - each;
  row[target] -= scale * static_cast<T>(shares.own);
  return loss;
}

struct RowResult {
  double loss;
  int32_t rivals;
};

template <typename T>
RM_KERNEL RowResult PredictRow(int64_t classes, int32_t target, const T* row) {
  const T target_logit = row[target];
  // Written so that NaN, which is not less than anything, counts as a rival.
  int32_t rivals = target_logit == target_logit ? 0 : 1;
  for (int64_t i = 0; i < target; ++i) rivals += row[i] < target_logit ? 0 : 1;
  for (int64_t i = target + 1; i < classes; ++i)
    rivals += row[i] <= target_logit ? 0 : 1;
  return {LossOf(FindNormalizer(classes, row), target_logit), rivals};
}

// The rows of all chunks but the last. Equal chunks, rather than full ones and
// a small rest, whose product would be slow.
int64_t EqualChunkRows(HeadShape shape) {
  const int64_t most = ClassifierChunkRows(shape);
  const int64_t chunks = (shape.rows + most - 1) / most;
  const int64_t rows = (shape.rows + chunks - 1) / chunks;
  return std::min(most, (rows + kRowUnit - 1) / kRowUnit * kRowUnit);
}

// Calls block(first row, shape of the chunk) for each chunk, after its logits
// have been computed.
template <typename T, typename Block>
void ForEachChunk(const Compute& compute, HeadShape shape, const T* x,
                  const T* weight, const T* bias, T* logits, Block block) {
  if (shape.rows == 0) return;
  const int64_t chunk_rows = EqualChunkRows(shape);
  for (int64_t begin = 0; begin < shape.rows; begin += chunk_rows) {
    const LinearShape chunk = {std::min(chunk_rows, shape.rows - begin),
                               shape.dim, shape.classes};
    LinearForward<T>(compute, chunk, x + begin * shape.dim, weight, bias,
                     logits);
    block(begin, chunk);
  }
}

// Sets each row's result by row(i), in parallel; results[i] is row i's.
template <typename Result, typename Row>
void ForEachRow(const Compute& compute, LinearShape chunk, Result* results,
                Row row) {
  // The number of logits that justifies another thread.
  constexpr int64_t kGrainElems = 1 << 14;
  const int64_t grain = std::max<int64_t>(1, kGrainElems / chunk.out);
  compute.pool.ParallelFor(chunk.batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) results[i] = row(i);
  });
}

}  // namespace

int64_t ClassifierChunkRows(HeadShape shape) {
  return std::min(shape.rows, std::clamp(kChunkElems / shape.classes,
                                         kLeastRows, kMostRows));
}

template <typename T>
void ClassifierTrain(const Compute& compute, HeadShape shape,
                     const LossTerms& terms, Write write, const T* x,
                     const T* weight, const T* bias, const int32_t* targets,
                     const ClassifierScratch<T>& scratch, T* dx, T* dweight,
                     T* dbias, double* loss_sum) {
  const Target shares = {1 - terms.smoothing,
                         terms.smoothing / static_cast<double>(shape.classes)};
  std::array<double, kMostRows> losses;
  T* const logits = scratch.logits;
  if (shape.rows == 0 && write == Write::kSet) {
    std::fill_n(dweight, shape.classes * shape.dim, T{0});
    if (dbias != nullptr) std::fill_n(dbias, shape.classes, T{0});
  }
  const auto train = [&](int64_t begin, LinearShape chunk) {
    ForEachRow(compute, chunk, losses.data(), [&](int64_t i) {
      return CallOnCpuFma<TrainRow<T>>(shape.classes, targets[begin + i],
                                       static_cast<T>(terms.scale), shares,
                                       logits + i * shape.classes);
    });
    for (int64_t i = 0; i < chunk.batch; ++i) *loss_sum += losses[i];
    const Write chunk_write = begin == 0 ? write : Write::kAdd;
    LinearBackwardWeight<T>(compute, chunk, chunk_write, logits,
                            x + begin * shape.dim, dweight);
    if (dbias != nullptr)
      LinearBackwardBias<T>(compute, chunk, chunk_write, logits, dbias);
    LinearBackwardInput<T>(compute, chunk, logits, weight,
                           dx + begin * shape.dim);
  };
  ForEachChunk(compute, shape, x, weight, bias, logits, train);
}

template <typename T>
void ClassifierPredict(const Compute& compute, HeadShape shape, const T* x,
                       const T* weight, const T* bias, const int32_t* targets,
                       const ClassifierScratch<T>& scratch, double* loss_sum,
                       int64_t* correct, ClassOutcome* outcomes) {
  std::array<RowResult, kMostRows> rows;
  T* const logits = scratch.logits;
  const auto predict = [&](int64_t begin, LinearShape chunk) {
    ForEachRow(compute, chunk, rows.data(), [&](int64_t i) {
      const T* const row = logits + i * shape.classes;
      const auto result =
          CallOnCpuFma<PredictRow<T>>(shape.classes, targets[begin + i], row);
      if (outcomes != nullptr) {
        outcomes[begin + i] = {
            static_cast<int32_t>(std::max_element(row, row + shape.classes) -
                                 row),
            result.rivals};
      }
      return result;
    });
    for (int64_t i = 0; i < chunk.batch; ++i) {
      *loss_sum += rows[i].loss;
      *correct += rows[i].rivals == 0 ? 1 : 0;
    }
  };
  ForEachChunk(compute, shape, x, weight, bias, logits, predict);
}

#define RM_INSTANTIATE(T)                                                      \
  template void ClassifierTrain<T>(                                            \
      const Compute&, HeadShape, const LossTerms&, Write, const T*, const T*,  \
      const T*, const int32_t*, const ClassifierScratch<T>&, T*, T*, T*,       \
      double*);                                                                \
  template void ClassifierPredict<T>(                                          \
      const Compute&, HeadShape, const T*, const T*, const T*, const int32_t*, \
      const ClassifierScratch<T>&, double*, int64_t*, ClassOutcome*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
