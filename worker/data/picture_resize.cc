#include "worker/data/picture_resize.h"

#include <algorithm>
#include <cmath>

#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

// Weights have so many bits behind the point, and rows between the two passes
// so many more than bytes: a value and a weight both fit 16 bits.
constexpr int kWeightBits = 14;
constexpr int kRowBits = 6;

// The weights of a side of `size` pixels from [begin, begin + length) of
// `count`.
void FindWeights(int64_t count, double begin, double length, int64_t size,
                 std::vector<double>& exact, ResizeWeights& found) {
  const double scale = length / static_cast<double>(size);
  const double support = std::max(scale, 1.0);
  // Ends of the filter's reach may both cut a pixel.
  found.taps =
      std::min(count, static_cast<int64_t>(std::ceil(2 * support)) + 1);
  found.first.resize(static_cast<size_t>(size));
  found.weights.assign(static_cast<size_t>(size * found.taps), 0);
  exact.resize(static_cast<size_t>(found.taps));
  for (int64_t i = 0; i < size; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::clamp<int64_t>(
        static_cast<int64_t>(std::floor(center - support + 0.5)), 0,
        count - found.taps);
    double sum = 0;
    for (int64_t k = 0; k < found.taps; ++k) {
      const double distance =
          std::abs(static_cast<double>(first + k) + 0.5 - center) / support;
      exact[static_cast<size_t>(k)] = std::max(0.0, 1 - distance);
      sum += exact[static_cast<size_t>(k)];
    }
    found.first[static_cast<size_t>(i)] = static_cast<int32_t>(first);
    int16_t* const weights = found.weights.data() + i * found.taps;
    // Sums are rounded, not weights, whose errors would add up: of hundreds of
    // taps to as much as a weight.
    double so_far = 0;
    int64_t given = 0;
    for (int64_t k = 0; k < found.taps; ++k) {
      so_far += exact[static_cast<size_t>(k)];
      const int64_t rounded = std::lround(so_far / sum * (1 << kWeightBits));
      weights[k] = static_cast<int16_t>(rounded - given);
      given = rounded;
    }
  }
}

// row [count] = the weighted sum of `taps` rows from `rows` on.
RM_KERNEL void SumRows(const uint8_t* rows, int64_t stride, int64_t taps,
                       const int16_t* weights, int64_t count, int32_t* sums,
                       int16_t* row) {
  for (int64_t i = 0; i < count; ++i) sums[i] = 0;
  for (int64_t k = 0; k < taps; ++k) {
    const uint8_t* const from = rows + k * stride;
    const int32_t weight = weights[k];
    if (weight == 0) continue;
    for (int64_t i = 0; i < count; ++i)
      sums[i] += static_cast<int16_t>(from[i]) * weight;
  }
  constexpr int kShift = kWeightBits - kRowBits;
  for (int64_t i = 0; i < count; ++i)
    row[i] = static_cast<int16_t>((sums[i] + (1 << (kShift - 1))) >> kShift);
}

// out [size, kChannels] = the weighted sums of pixels of `row`.
template <int kChannels>
RM_KERNEL void SumColumns(const int16_t* row, const int32_t* first,
                          int64_t taps, const int16_t* weights, int64_t size,
                          bool is_flipped, uint8_t* out) {
  constexpr int kShift = kWeightBits + kRowBits;
  for (int64_t x = 0; x < size; ++x) {
    const int16_t* from = row + first[x] * kChannels;
    int32_t sums[kChannels] = {};
    for (int64_t k = 0; k < taps; ++k) {
      for (int c = 0; c < kChannels; ++c)
        sums[c] += from[k * kChannels + c] * weights[x * taps + k];
    }
    uint8_t* const to = out + (is_flipped ? size - 1 - x : x) * kChannels;
    for (int c = 0; c < kChannels; ++c)
      to[c] = static_cast<uint8_t>((sums[c] + (1 << (kShift - 1))) >> kShift);
  }
}

}  // namespace

void ResizePart(const PicturePart& part, PictureSize size, bool is_flipped,
                ResizeScratch& scratch, uint8_t* out) {
  const Picture& from = part.picture;
  FindWeights(from.size.height, part.top, part.height, size.height,
              scratch.weights, scratch.rows);
  FindWeights(from.size.width, part.left, part.width, size.width,
              scratch.weights, scratch.columns);
  const int64_t row_elems = from.size.width * from.channels;
  scratch.sums.resize(static_cast<size_t>(row_elems));
  scratch.row.resize(static_cast<size_t>(row_elems));
  for (int64_t y = 0; y < size.height; ++y) {
    CallOnCpu<SumRows>(
        from.pixels.data() +
            scratch.rows.first[static_cast<size_t>(y)] * row_elems,
        row_elems, scratch.rows.taps,
        static_cast<const int16_t*>(scratch.rows.weights.data() +
                                    y * scratch.rows.taps),
        row_elems, scratch.sums.data(), scratch.row.data());
    const auto sum_columns = [&]<int kChannels>() {
      CallOnCpu<SumColumns<kChannels>>(
          static_cast<const int16_t*>(scratch.row.data()),
          static_cast<const int32_t*>(scratch.columns.first.data()),
          scratch.columns.taps,
          static_cast<const int16_t*>(scratch.columns.weights.data()),
          size.width, is_flipped, out + y * size.width * kChannels);
    };
    if (from.channels == 1) {
      sum_columns.operator()<1>();
    } else {
      sum_columns.operator()<3>();
    }
  }
}

}  // namespace ringmaster
