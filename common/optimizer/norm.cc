#include "common/optimizer/norm.h"

#include <cmath>
#include <cstdint>

#include "common/status/check.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Independent partial sums: enough to hide the latency of an addition, and the
// same number on every processor.
constexpr int kLanes = 16;

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
double SumOfSquares(absl::Span<const T> elems) {
  return CallOnCpu<SumOfSquaresKernel<T>>(elems.data(),
                                          static_cast<int64_t>(elems.size()));
}

template double SumOfSquares<float>(absl::Span<const float>);
template double SumOfSquares<double>(absl::Span<const double>);

double ClipFactor(double norm_squared, double clip_norm) {
  RM_CHECK(std::isfinite(norm_squared) && norm_squared >= 0, "not a norm");
  const double norm = std::sqrt(norm_squared);
  return clip_norm == 0 || norm <= clip_norm ? 1.0 : clip_norm / norm;
}

}  // namespace ringmaster
