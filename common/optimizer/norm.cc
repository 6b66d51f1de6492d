#include "common/optimizer/norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/status/check.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Independent partial sums: enough to hide the latency of an addition, and the
// same number on every processor.
constexpr int kLanes = 16;
// Each block has its own sum. There are at most kMaxBlocks, of at least
// kMinBlockElems.
constexpr int64_t kMinBlockElems = int64_t{1} << 16;
constexpr int64_t kMaxBlocks = 256;

template <typename T>
RM_KERNEL double SumOfSquaresKernel(const T* elems, int64_t count) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double x = elems[i + lane];
      lanes[lane] += x * x;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) {
    const double x = elems[i];
    lanes[lane] += x * x;
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace

template <typename T>
double SumOfSquares(ThreadPool& pool, absl::Span<const T> elems) {
  const auto count = static_cast<int64_t>(elems.size());
  const int64_t grain =
      std::max(kMinBlockElems, (count + kMaxBlocks - 1) / kMaxBlocks);
  double sums[kMaxBlocks] = {};
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    sums[begin / grain] =
        CallOnCpu<SumOfSquaresKernel<T>>(elems.data() + begin, end - begin);
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

template <typename T>
double SumOfSquares(absl::Span<const T> elems) {
  ThreadPool alone(1);
  return SumOfSquares(alone, elems);
}

template double SumOfSquares<float>(ThreadPool&, absl::Span<const float>);
template double SumOfSquares<double>(ThreadPool&, absl::Span<const double>);
template double SumOfSquares<float>(absl::Span<const float>);
template double SumOfSquares<double>(absl::Span<const double>);

double ClipFactor(double norm_squared, double clip_norm) {
  RM_CHECK(std::isfinite(norm_squared) && norm_squared >= 0, "not a norm");
  const double norm = std::sqrt(norm_squared);
  return clip_norm == 0 || norm <= clip_norm ? 1.0 : clip_norm / norm;
}

}  // namespace ringmaster
