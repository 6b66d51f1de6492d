// Operations of kernels on the bits of floats, and the one definition of
// bfloat16: the upper half of a float32.
//
// Guarantees: the same bits on every processor. Rounds to nearest, ties to
// even; a number past the largest becomes an infinity. A NaN stays one: it
// keeps its sign and its upper bits, and becomes quiet. Subnormal numbers are
// numbers like others.
// Pure. See cpu_dispatch.h for RM_KERNEL.
#ifndef RINGMASTER_COMMON_TENSOR_FLOAT_BITS_H_
#define RINGMASTER_COMMON_TENSOR_FLOAT_BITS_H_

#include <bit>
#include <cstdint>

#include "common/tensor/cpu_dispatch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringmaster {

// `yes` or `no`, by arithmetic: what ?: selects between, the compiler may put
// into branches, and then a loop does not become vectors.
RM_KERNEL uint32_t Select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

RM_KERNEL float WidenBFloat16(uint16_t bfloat16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat16) << 16);
}

RM_KERNEL uint16_t NarrowToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // The carry makes an infinity of a number past the largest.
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  // A NaN must not lose its last bit, or be carried into another number.
  const uint32_t quiet = bits | 0x400000;
  return static_cast<uint16_t>(Select(value == value, rounded, quiet) >> 16);
}

#if defined(__x86_64__)

// The same for the bits of 16 float32: the upper halves are the bfloat16, the
// lower ones undefined.
[[gnu::always_inline, gnu::target("avx512f")]] inline __m512i
NarrowToUpperHalves(__m512i bits) {
  const __m512 value = _mm512_castsi512_ps(bits);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  // All of them, by mask: GCC 12 warns about its own _mm512_srli_epi32.
  const __m512i upper = _mm512_maskz_srli_epi32(0xffff, bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_mask_or_epi32(rounded, is_nan, bits,
                              _mm512_set1_epi32(0x400000));
}

// The same for 8 float32.
[[gnu::always_inline, gnu::target("avx2")]] inline __m256i NarrowToUpperHalves(
    __m256i bits) {
  const __m256 value = _mm256_castsi256_ps(bits);
  const __m256i is_nan =
      _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

#endif  // defined(__x86_64__)

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_FLOAT_BITS_H_
