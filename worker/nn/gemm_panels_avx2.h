// Panels (gemm_panels.h) with AVX2 and FMA, for gemm_packed.cc alone.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_GEMM_PANELS_AVX2_H_
#define RINGMASTER_WORKER_NN_GEMM_PANELS_AVX2_H_

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "common/tensor/float_bits.h"
#include "worker/nn/gemm_packed.h"
#include "worker/nn/gemm_panels.h"

namespace ringmaster::gemm_internal {

template <Operands kOperands>
[[gnu::always_inline]] RM_AVX2 inline __m256i RoundedIf(__m256i bits) {
  if constexpr (kOperands == Operands::kFloat) return bits;
  return _mm256_and_si256(NarrowToUpperHalves(bits),
                          _mm256_set1_epi32(static_cast<int>(0xffff0000)));
}

// Stores 8 words, or the first 6 of them.
template <int64_t kWords>
[[gnu::always_inline]] RM_AVX2 inline void StoreWords(__m256i words,
                                                      uint32_t* to) {
  static_assert(kWords == 8 || kWords == 6);
  if constexpr (kWords == 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_castsi256_si128(words));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 4),
                     _mm256_extracti128_si256(words, 1));
  }
}

template <Operands kOperands, int64_t kLanes>
RM_AVX2 int64_t PackNeighbourLanesAvx2(const Operand& from, int64_t lanes,
                                       int64_t depth, uint32_t* panel) {
  constexpr int64_t kAhead = 8;  // rows to fetch ahead
  constexpr int64_t kGroups = (kLanes + 7) / 8;
  __m256i masks[kGroups];
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  RM_UNROLL
  for (int64_t group = 0; group < kGroups; ++group) {
    const int64_t here = std::clamp<int64_t>(lanes - 8 * group, 0, 8);
    masks[group] =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(here)), places);
  }
  for (int64_t word = 0; word < depth; ++word) {
    const float* const values = from.data + word * from.depth_stride;
    RM_UNROLL
    for (int64_t group = 0; group < kGroups; ++group) {
      _mm_prefetch(values + kAhead * from.depth_stride + 8 * group,
                   _MM_HINT_T0);
      const __m256i bits = RoundedIf<kOperands>(_mm256_maskload_epi32(
          reinterpret_cast<const int*>(values + 8 * group), masks[group]));
      StoreWords<std::min<int64_t>(8, kLanes)>(
          bits, panel + word * kLanes + 8 * group);
    }
  }
  return depth;
}

template <Operands kOperands, int64_t kLanes>
RM_AVX2 int64_t PackNeighbourDepthsAvx2(const Operand& from, int64_t lanes,
                                        int64_t depth, uint32_t* panel) {
  const int64_t groups = depth / 8;
  for (int64_t lane = 0; lane < kLanes; lane += 8) {
    const int64_t here = std::clamp<int64_t>(lanes - lane, 0, 8);
    for (int64_t group = 0; group < groups; ++group) {
      __m256i words[8];
      RM_UNROLL
      for (int i = 0; i < 8; ++i) {
        words[i] =
            i < here ? RoundedIf<kOperands>(
                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(
                               from.data + (lane + i) * from.lane_stride +
                               group * 8)))
                     : _mm256_setzero_si256();
      }
      Transpose(words);
      RM_UNROLL
      for (int i = 0; i < 8; ++i) {
        StoreWords<std::min<int64_t>(8, kLanes)>(
            words[i], panel + (group * 8 + i) * kLanes + lane);
      }
    }
  }
  return groups * 8;
}

template <Operands kKind>
struct Avx2Panels {
  static_assert(kKind != Operands::kDot, "AVX2 has no such instruction");
  static constexpr Operands kOperands = kKind;
  // 6 x 2 vectors of sums, 2 of the right operand and 1 of the left one fill 15
  // of the 16 registers.
  static constexpr int64_t kLeftLanes = 6;
  static constexpr int64_t kRightLanes = 16;

  template <int64_t kLanes>
  static int64_t PackMost(const Operand& from, int64_t lanes, int64_t depth,
                          uint32_t* panel) {
    return from.depth_stride == 1 ? PackNeighbourDepthsAvx2<kOperands, kLanes>(
                                        from, lanes, depth, panel)
                                  : PackNeighbourLanesAvx2<kOperands, kLanes>(
                                        from, lanes, depth, panel);
  }
  RM_AVX2 static void Multiply(int64_t words, const uint32_t* left,
                               const uint32_t* right, const float* start,
                               int64_t start_stride, float* c,
                               int64_t c_stride);
};

template <Operands kKind>
RM_AVX2 void Avx2Panels<kKind>::Multiply(int64_t words, const uint32_t* left,
                                         const uint32_t* right,
                                         const float* start,
                                         int64_t start_stride, float* c,
                                         int64_t c_stride) {
  constexpr int kRows = kLeftLanes;
  constexpr int kVectors = kRightLanes / 8;
  __m256 sums[kRows][kVectors];
  RM_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RM_UNROLL
    for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm256_setzero_ps();
    // Its rows are far apart, and arrive while the loop below runs.
    _mm_prefetch(c + i * c_stride, _MM_HINT_T0);
    _mm_prefetch(c + i * c_stride + kRightLanes - 1, _MM_HINT_T0);
  }
  const auto* x = reinterpret_cast<const float*>(left);
  const auto* y = reinterpret_cast<const float*>(right);
  for (int64_t word = 0; word < words; ++word) {
    const __m256 y0 = _mm256_load_ps(y);
    const __m256 y1 = _mm256_load_ps(y + 8);
    RM_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m256 x_i = _mm256_broadcast_ss(x + i);
      sums[i][0] = _mm256_fmadd_ps(x_i, y0, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(x_i, y1, sums[i][1]);
    }
    x += kLeftLanes;
    y += kRightLanes;
  }
  RM_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const __m256 from = _mm256_loadu_ps(start + i * start_stride + 8 * j);
      _mm256_storeu_ps(c + i * c_stride + 8 * j,
                       _mm256_add_ps(sums[i][j], from));
    }
  }
}

}  // namespace ringmaster::gemm_internal

#endif  // defined(__x86_64__)

#endif  // RINGMASTER_WORKER_NN_GEMM_PANELS_AVX2_H_
