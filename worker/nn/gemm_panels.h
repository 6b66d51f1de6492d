// The copy of operands into panels and the inner loop over them, for
// gemm_avx512.cc alone.
//
// A panel holds a few lanes (see Operand) side by side: for each word of depth,
// the words of all its lanes, and zeros for lanes that are not there. A word is
// a float, or with Operands::kDot two bfloat16, the lower depth in the low half.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_GEMM_PANELS_H_
#define RINGMASTER_WORKER_NN_GEMM_PANELS_H_

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/tensor/float_bits.h"
#include "worker/nn/gemm_avx512.h"

#define RM_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
// The loops over registers must leave no loop behind.
#if defined(__clang__)
#define RM_UNROLL _Pragma("unroll")
#else
#define RM_UNROLL _Pragma("GCC unroll 8")
#endif

namespace ringmaster::gemm_internal {

// Lanes of a panel of the left and of the right operand: 8 x 3 vectors of sums,
// 3 of the right operand and 1 of the left one fill 28 of the 32 registers, and
// 8 divides the usual batch sizes, 48 the usual widths of a layer.
constexpr int64_t kLeftLanes = 8;
constexpr int64_t kRightLanes = 48;

template <Operands kOperands>
constexpr int64_t kDepthPerWord = kOperands == Operands::kDot ? 2 : 1;

// Floats rounded to bfloat16, as the bits of floats.
inline uint32_t RoundedBits(float value) {
  return static_cast<uint32_t>(NarrowToBFloat16(value)) << 16;
}

[[gnu::always_inline]] RM_AVX512 inline __m512i RoundedBits(__m512i bits) {
  return _mm512_and_si512(NarrowToUpperHalves(bits),
                          _mm512_set1_epi32(static_cast<int>(0xffff0000)));
}

// The word of a lane that holds depths from word * kDepthPerWord.
template <Operands kOperands>
uint32_t Word(const Operand& from, int64_t lane, int64_t word, int64_t depth) {
  const float* const values = from.data + lane * from.lane_stride;
  const auto bits = [&](int64_t at) {
    return at < depth ? RoundedBits(values[at * from.depth_stride]) : 0;
  };
  if constexpr (kOperands == Operands::kFloat)
    return std::bit_cast<uint32_t>(values[word * from.depth_stride]);
  if constexpr (kOperands == Operands::kRounded) return bits(word);
  return (bits(2 * word) >> 16) | bits(2 * word + 1);
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

// Transposes 8 x 8 words.
[[gnu::always_inline]] RM_AVX512 inline void Transpose(__m256i (&rows)[8]) {
  __m256 a[8];
  __m256 b[8];
  RM_UNROLL
  for (int i = 0; i < 8; i += 2) {
    const __m256 even = _mm256_castsi256_ps(rows[i]);
    const __m256 odd = _mm256_castsi256_ps(rows[i + 1]);
    a[i] = _mm256_unpacklo_ps(even, odd);
    a[i + 1] = _mm256_unpackhi_ps(even, odd);
  }
  RM_UNROLL
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
  RM_UNROLL
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_castps_si256(_mm256_permute2f128_ps(b[i], b[i + 4], 0x20));
    rows[i + 4] =
        _mm256_castps_si256(_mm256_permute2f128_ps(b[i], b[i + 4], 0x31));
  }
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

// panel [words, kLanes] = `lanes` <= kLanes lanes of `from`, with the depths
// [0, depth). The panel is aligned to a cache line.
template <Operands kOperands, int64_t kLanes>
void Pack(const Operand& from, int64_t lanes, int64_t depth, uint32_t* panel) {
  constexpr int64_t kPerWord = kDepthPerWord<kOperands>;
  const int64_t words = (depth + kPerWord - 1) / kPerWord;
  int64_t word =
      from.depth_stride == 1
          ? PackNeighbourDepths<kOperands, kLanes>(from, lanes, depth, panel)
          : PackNeighbourLanes<kOperands, kLanes>(from, lanes, depth, panel);
  for (; word < words; ++word) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      panel[word * kLanes + lane] =
          lane < lanes ? Word<kOperands>(from, lane, word, depth) : 0;
    }
  }
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

// c [8,48] = start [8,48] + left panel^T * right panel. `start` may be c; with
// a start_stride of 0 it is one row for all.
template <bool kDot>
RM_AVX512 void MultiplyPanels(int64_t words, const uint32_t* left,
                              const uint32_t* right, const float* start,
                              int64_t start_stride, float* c,
                              int64_t c_stride) {
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

#endif  // RINGMASTER_WORKER_NN_GEMM_PANELS_H_
