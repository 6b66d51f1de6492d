// The layout of operands as the inner loops of a product read them, for
// gemm_packed.cc alone.
//
// A panel holds a few lanes (see Operand) side by side: for each word of depth,
// the words of all its lanes, and zeros for lanes that are not there. A word is
// a float, or with Operands::kDot two bfloat16, the lower depth in the low half.
//
// For each kind of processor there is a class like this, Avx2Panels and
// Avx512Panels:
//
//   kOperands
//   kLeftLanes, kRightLanes   lanes of a panel of the left and right operand
//   PackMost<kLanes>(from, lanes, depth, panel)
//                             fills the first words of a panel, and returns how
//                             many of them: all whose depths exist, or those
//                             that come in groups of 8
//   Multiply(words, left, right, start, start_stride, c, c_stride)
//                             c [kLeftLanes, kRightLanes] = start + left
//                             panel^T * right panel. `start` may be c; with a
//                             start_stride of 0 it is one row for all
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_GEMM_PANELS_H_
#define RINGMASTER_WORKER_NN_GEMM_PANELS_H_

#if defined(__x86_64__)

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "common/tensor/float_bits.h"
#include "worker/nn/gemm_packed.h"

#define RM_AVX2 [[gnu::target("avx2,fma")]]
// The loops over registers must leave no loop behind.
#if defined(__clang__)
#define RM_UNROLL _Pragma("unroll")
#else
#define RM_UNROLL _Pragma("GCC unroll 8")
#endif

namespace ringmaster::gemm_internal {

template <Operands kOperands>
constexpr int64_t kDepthPerWord = kOperands == Operands::kDot ? 2 : 1;

// Floats rounded to bfloat16, as the bits of floats.
inline uint32_t RoundedBits(float value) {
  return static_cast<uint32_t>(NarrowToBFloat16(value)) << 16;
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

// Transposes 8 x 8 words.
[[gnu::always_inline, gnu::target("avx2")]] inline void Transpose(
    __m256i (&rows)[8]) {
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

// panel [words, kLanes] = `lanes` <= kLanes lanes of `from`, with the depths
// [0, depth). The panel is aligned to a cache line.
template <typename Panels, int64_t kLanes>
void Pack(const Operand& from, int64_t lanes, int64_t depth, uint32_t* panel) {
  constexpr int64_t kPerWord = kDepthPerWord<Panels::kOperands>;
  const int64_t words = (depth + kPerWord - 1) / kPerWord;
  int64_t word = Panels::template PackMost<kLanes>(from, lanes, depth, panel);
  for (; word < words; ++word) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      panel[word * kLanes + lane] =
          lane < lanes ? Word<Panels::kOperands>(from, lane, word, depth) : 0;
    }
  }
}

}  // namespace ringmaster::gemm_internal

#endif  // defined(__x86_64__)

#endif  // RINGMASTER_WORKER_NN_GEMM_PANELS_H_
