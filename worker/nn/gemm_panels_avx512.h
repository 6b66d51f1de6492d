// Panels (gemm_panels.h) with AVX-512, for gemm_packed.cc alone.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_GEMM_PANELS_AVX512_H_
#define RINGMASTER_WORKER_NN_GEMM_PANELS_AVX512_H_

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "common/tensor/float_bits.h"
#include "worker/nn/gemm_packed.h"
#include "worker/nn/gemm_panels.h"

#define RM_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]

namespace ringmaster::gemm_internal {

[[gnu::always_inline]] RM_AVX512 inline __m512i RoundedBits(__m512i bits) {
  return _mm512_and_si512(NarrowToUpperHalves(bits),
                          _mm512_set1_epi32(static_cast<int>(0xffff0000)));
}

// 16 neighbouring lanes' words, or those of them that the mask has. Lanes are
// next to each other in memory.
template <Operands kOperands>
[[gnu::always_inline]] RM_AVX512 inline __m512i LoadLanes(
    __mmask16 lanes, const float* values, int64_t depth_stride) {
  __m512i bits = _mm512_maskz_loadu_epi32(lanes, values);
  if constexpr (kOperands == Operands::kFloat) return bits;
  bits = RoundedBits(bits);
  if constexpr (kOperands == Operands::kRounded) return bits;
  const __m512i next =
      RoundedBits(_mm512_maskz_loadu_epi32(lanes, values + depth_stride));
  return _mm512_or_si512(_mm512_srli_epi32(bits, 16), next);
}

// 8 consecutive words of one lane, whose values are next to each other.
template <Operands kOperands>
[[gnu::always_inline]] RM_AVX512 inline __m256i LoadDepths(
    const float* values) {
  if constexpr (kOperands == Operands::kDot) {
    return _mm512_cvtepi32_epi16(
        _mm512_srli_epi32(RoundedBits(_mm512_loadu_si512(values)), 16));
  }
  const __m256i bits =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  if constexpr (kOperands == Operands::kFloat) return bits;
  return _mm512_castsi512_si256(RoundedBits(_mm512_castsi256_si512(bits)));
}

// Both return how many words of depth they did: all whose depths exist, or all
// that come in groups of 8.
template <Operands kOperands, int64_t kLanes>
RM_AVX512 int64_t PackNeighbourLanes(const Operand& from, int64_t lanes,
                                     int64_t depth, uint32_t* panel) {
  constexpr int64_t kAhead = 8;  // rows to fetch ahead
  const int64_t words = depth / kDepthPerWord<kOperands>;
  const int64_t word_stride = from.depth_stride * kDepthPerWord<kOperands>;
  __mmask16 masks[(kLanes + 15) / 16];
  for (int64_t j = 0; j < kLanes; j += 16) {
    const int64_t here = std::clamp<int64_t>(lanes - j, 0, 16);
    masks[j / 16] = static_cast<__mmask16>((1u << here) - 1);
  }
  for (int64_t word = 0; word < words; ++word) {
    const float* const values = from.data + word * word_stride;
    for (int64_t j = 0; j < kLanes; j += 16) {
      _mm_prefetch(values + kAhead * from.depth_stride + j, _MM_HINT_T0);
      const __m512i bits =
          LoadLanes<kOperands>(masks[j / 16], values + j, from.depth_stride);
      uint32_t* const to = panel + word * kLanes + j;
      if constexpr (kLanes % 16 == 0) {
        _mm512_store_si512(to, bits);
      } else {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to),
                           _mm512_castsi512_si256(bits));
      }
    }
  }
  return words;
}

template <Operands kOperands, int64_t kLanes>
RM_AVX512 int64_t PackNeighbourDepths(const Operand& from, int64_t lanes,
                                      int64_t depth, uint32_t* panel) {
  constexpr int64_t kGroup = 8 * kDepthPerWord<kOperands>;
  const int64_t groups = depth / kGroup;
  for (int64_t lane = 0; lane < kLanes; lane += 8) {
    const int64_t here = std::clamp<int64_t>(lanes - lane, 0, 8);
    for (int64_t group = 0; group < groups; ++group) {
      __m256i words[8];
      RM_UNROLL
      for (int i = 0; i < 8; ++i) {
        words[i] = i < here ? LoadDepths<kOperands>(
                                  from.data + (lane + i) * from.lane_stride +
                                  group * kGroup)
                            : _mm256_setzero_si256();
      }
      Transpose(words);
      RM_UNROLL
      for (int i = 0; i < 8; ++i) {
        _mm256_store_si256(
            reinterpret_cast<__m256i*>(panel + (group * 8 + i) * kLanes + lane),
            words[i]);
      }
    }
  }
  return groups * 8;
}

// sums += x * y; with kDot, of the two bfloat16 of each word. Assembly for that
// one, so that the loop needs to be compiled for one processor only.
template <bool kDot>
[[gnu::always_inline]] RM_AVX512 inline void MultiplyAdd(__m512 x, __m512 y,
                                                         __m512& sums) {
  if constexpr (kDot) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(x), "v"(y));
  } else {
    sums = _mm512_fmadd_ps(x, y, sums);
  }
}

template <Operands kKind>
struct Avx512Panels {
  static constexpr Operands kOperands = kKind;
  // 8 x 3 vectors of sums, 3 of the right operand and 1 of the left one fill 28
  // of the 32 registers, and 8 divides the usual batch sizes, 48 the usual
  // widths of a layer.
  static constexpr int64_t kLeftLanes = 8;
  static constexpr int64_t kRightLanes = 48;

  template <int64_t kLanes>
  static int64_t PackMost(const Operand& from, int64_t lanes, int64_t depth,
                          uint32_t* panel) {
    return from.depth_stride == 1 ? PackNeighbourDepths<kOperands, kLanes>(
                                        from, lanes, depth, panel)
                                  : PackNeighbourLanes<kOperands, kLanes>(
                                        from, lanes, depth, panel);
  }
  RM_AVX512 static void Multiply(int64_t words, const uint32_t* left,
                                 const uint32_t* right, const float* start,
                                 int64_t start_stride, float* c,
                                 int64_t c_stride);
};

template <Operands kKind>
RM_AVX512 void Avx512Panels<kKind>::Multiply(
    int64_t words, const uint32_t* left, const uint32_t* right,
    const float* start, int64_t start_stride, float* c, int64_t c_stride) {
  constexpr bool kDot = kOperands == Operands::kDot;
  constexpr int kRows = kLeftLanes;
  constexpr int kVectors = kRightLanes / 16;
  __m512 sums[kRows][kVectors];
  RM_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = _mm512_setzero_ps();
      // Its rows are far apart, and arrive while the loop below runs.
      _mm_prefetch(c + i * c_stride + 16 * j, _MM_HINT_T0);
    }
    _mm_prefetch(c + i * c_stride + kRightLanes - 1, _MM_HINT_T0);
  }
  for (int64_t word = 0; word < words; ++word) {
    __m512 y[kVectors];
    RM_UNROLL
    for (int j = 0; j < kVectors; ++j)
      y[j] = _mm512_castsi512_ps(_mm512_load_si512(right + 16 * j));
    RM_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m512 x =
          _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(left[i])));
      RM_UNROLL
      for (int j = 0; j < kVectors; ++j) MultiplyAdd<kDot>(x, y[j], sums[i][j]);
    }
    left += kLeftLanes;
    right += kRightLanes;
  }
  RM_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const __m512 from = _mm512_loadu_ps(start + i * start_stride + 16 * j);
      _mm512_storeu_ps(c + i * c_stride + 16 * j,
                       _mm512_add_ps(sums[i][j], from));
    }
  }
}

}  // namespace ringmaster::gemm_internal

#endif  // defined(__x86_64__)

#endif  // RINGMASTER_WORKER_NN_GEMM_PANELS_AVX512_H_
