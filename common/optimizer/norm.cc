#include "common/optimizer/norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/optimizer/stream_kernel.h"
#include "common/status/check.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// A vector in the compilers' own notation, which they cut to what the processor
// has (GCC 12 cuts longer ones badly). Written out because GCC does not
// vectorize this loop once it fetches ahead.
template <typename T>
struct VectorOf4 {
  typedef T Type __attribute__((vector_size(4 * sizeof(T))));
};
using Doubles = VectorOf4<double>::Type;

// Independent partial sums: enough to hide the latency of an addition, and the
// same number on every processor.
constexpr int kLanes = 16;
// Each block has its own sum, so that a long span loses little to rounding.
constexpr int64_t kBlockElems = int64_t{1} << 16;

template <typename T>
RM_KERNEL void AddSquares(const T* elems, Doubles& sums) {
  typename VectorOf4<T>::Type loaded;
  std::memcpy(&loaded, elems, sizeof(loaded));
  const Doubles x = __builtin_convertvector(loaded, Doubles);
  sums += x * x;
}

template <typename T>
RM_KERNEL double SumOfSquaresKernel(const T* elems, int64_t count) {
  Doubles sums[kLanes / 4] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    FetchAhead(elems + i);
    for (int part = 0; part < kLanes / 4; ++part)
      AddSquares(elems + i + 4 * part, sums[part]);
  }
  double lanes[kLanes];
  std::memcpy(lanes, sums, sizeof(lanes));
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
  const auto count = static_cast<int64_t>(elems.size());
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kBlockElems) {
    total += CallOnCpu<SumOfSquaresKernel<T>>(
        elems.data() + begin, std::min(kBlockElems, count - begin));
  }
  return total;
}

template double SumOfSquares<float>(absl::Span<const float>);
template double SumOfSquares<double>(absl::Span<const double>);

double ClipFactor(double norm_squared, double clip_norm) {
  RM_CHECK(std::isfinite(norm_squared) && norm_squared >= 0, "not a norm");
  const double norm = std::sqrt(norm_squared);
  return clip_norm == 0 || norm <= clip_norm ? 1.0 : clip_norm / norm;
}

}  // namespace ringmaster
