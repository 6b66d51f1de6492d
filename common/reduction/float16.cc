#include "common/reduction/float16.h"

#include <array>
#include <bit>
#include <cstring>

#include "common/tensor/cpu_dispatch.h"
#include "common/tensor/float_bits.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ringmaster {
namespace {

constexpr int64_t kFloat16Bytes = 2;
constexpr int64_t kFloat32Bytes = 4;

// Bit patterns of float32. The first is the difference of the exponents'
// biases.
constexpr uint32_t kRebias = (127 - 15) << 23;
constexpr uint32_t kQuiet = 1 << 22;
constexpr int32_t kSmallestNormal = (127 - 14) << 23;  // 2^-14
constexpr int32_t kTooLarge = (127 + 16) << 23;        // 2^16

RM_KERNEL uint32_t Widened(uint16_t float16) {
  const int32_t magnitude = float16 & 0x7fff;
  const uint32_t shifted = static_cast<uint32_t>(magnitude) << 13;
  // The exponent of infinity and NaN is rebiased twice.
  const uint32_t normal =
      shifted + kRebias + Select(magnitude >= 0x7c00, kRebias, 0);
  const uint32_t quiet = Select(magnitude > 0x7c00, kQuiet, 0);
  const auto subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  const uint32_t result = Select(magnitude < 0x0400, subnormal, normal);
  return result | quiet | (float16 & 0x8000u) << 16;
}

RM_KERNEL uint16_t Narrowed(uint32_t float32) {
  const uint32_t unsigned_bits = float32 & 0x7fffffff;
  const auto magnitude = static_cast<int32_t>(unsigned_bits);
  // The carry of rounding makes an infinity of a number less than 2^16 but
  // nearer to it than to the largest float16.
  const uint32_t normal =
      (unsigned_bits - kRebias + 0xfff + ((float32 >> 13) & 1)) >> 13;
  // From 0.5 to 1, float32 has the spacing of the subnormal float16: the
  // addition rounds.
  const auto subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(float32 & 0x7fffffff) +
                              0.5f) -
      std::bit_cast<uint32_t>(0.5f);
  const uint32_t finite =
      Select(magnitude < kSmallestNormal, subnormal, normal);
  const uint32_t nan = ((unsigned_bits | kQuiet) >> 13) & 0x7fff;
  const uint32_t not_finite = Select(magnitude > 0x7f800000, nan, 0x7c00);
  const uint32_t result = Select(magnitude < kTooLarge, finite, not_finite);
  return static_cast<uint16_t>(result | ((float32 >> 16) & 0x8000));
}

// The copies become unaligned loads and stores.

RM_KERNEL void WidenLoop(std::byte* __restrict to,
                         const std::byte* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t float16;
    std::memcpy(&float16, from + i * kFloat16Bytes, sizeof(float16));
    const uint32_t float32 = Widened(float16);
    std::memcpy(to + i * kFloat32Bytes, &float32, sizeof(float32));
  }
}

RM_KERNEL void NarrowLoop(std::byte* __restrict to,
                          const std::byte* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t float32;
    std::memcpy(&float32, from + i * kFloat32Bytes, sizeof(float32));
    const uint16_t float16 = Narrowed(float32);
    std::memcpy(to + i * kFloat16Bytes, &float16, sizeof(float16));
  }
}

RM_KERNEL void NarrowBFloat16Loop(std::byte* __restrict to,
                                  const std::byte* __restrict from,
                                  int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float float32;
    std::memcpy(&float32, from + i * kFloat32Bytes, sizeof(float32));
    const uint16_t bfloat16 = NarrowToBFloat16(float32);
    std::memcpy(to + i * kFloat16Bytes, &bfloat16, sizeof(bfloat16));
  }
}

#if defined(__x86_64__)

// The loops above stay below the speed of caches, those of float16 even below
// that of memory. The functions here do not, and have the same results; each
// does the elements that fill whole vectors, and returns how many those are.

[[gnu::target("avx2,f16c")]] int64_t WidenAvx2(std::byte* to,
                                               const std::byte* from,
                                               int64_t count) {
  constexpr int64_t kVector = 8;
  const int64_t end = count - count % kVector;
  for (int64_t i = 0; i < end; i += kVector) {
    const __m128i float16s = _mm_loadu_si128(
        reinterpret_cast<const __m128i*>(from + i * kFloat16Bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * kFloat32Bytes),
                        _mm256_castps_si256(_mm256_cvtph_ps(float16s)));
  }
  return end;
}

[[gnu::target("avx2,f16c")]] int64_t NarrowAvx2(std::byte* to,
                                                const std::byte* from,
                                                int64_t count) {
  constexpr int64_t kVector = 8;
  const int64_t end = count - count % kVector;
  for (int64_t i = 0; i < end; i += kVector) {
    const __m256 float32s = _mm256_castsi256_ps(_mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(from + i * kFloat32Bytes)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kFloat16Bytes),
                     _mm256_cvtps_ph(float32s, _MM_FROUND_TO_NEAREST_INT));
  }
  return end;
}

[[gnu::target("avx512f")]] int64_t WidenAvx512(std::byte* to,
                                               const std::byte* from,
                                               int64_t count) {
  constexpr int64_t kVector = 16;
  const int64_t end = count - count % kVector;
  for (int64_t i = 0; i < end; i += kVector) {
    const __m256i float16s = _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(from + i * kFloat16Bytes));
    _mm512_storeu_ps(to + i * kFloat32Bytes, _mm512_cvtph_ps(float16s));
  }
  return end;
}

[[gnu::target("avx512f")]] int64_t NarrowAvx512(std::byte* to,
                                                const std::byte* from,
                                                int64_t count) {
  constexpr int64_t kVectors = 32;
  const int64_t end = count - count % kVectors;
  for (int64_t i = 0; i < end; i += kVectors) {
    const std::byte* const pair = from + i * kFloat32Bytes;
    const __m256i low =
        _mm512_cvtps_ph(_mm512_loadu_ps(pair), _MM_FROUND_TO_NEAREST_INT);
    const __m256i high =
        _mm512_cvtps_ph(_mm512_loadu_ps(pair + 64), _MM_FROUND_TO_NEAREST_INT);
    _mm512_storeu_si512(
        to + i * kFloat16Bytes,
        _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }
  return end;
}

// Two vectors of float32 to one of bfloat16.
[[gnu::always_inline, gnu::target("avx512f,avx512bw")]] inline __m512i
NarrowToBFloat16s(__m512i low, __m512i high) {
  alignas(64) static constexpr auto kUpperHalves = [] {
    std::array<uint16_t, 32> indices = {};
    for (size_t i = 0; i < indices.size(); ++i)
      indices[i] = static_cast<uint16_t>(2 * i + 1);
    return indices;
  }();
  return _mm512_permutex2var_epi16(NarrowToUpperHalves(low),
                                   _mm512_load_si512(kUpperHalves.data()),
                                   NarrowToUpperHalves(high));
}

// The instruction takes subnormal numbers for zeros, so it is left out where
// there are any.
[[gnu::target("avx512f,avx512bw,avx512dq,avx512bf16")]] int64_t
NarrowBFloat16Avx512(std::byte* to, const std::byte* from, int64_t count) {
  constexpr int64_t kVector = 32;
  constexpr int kSubnormal = 0x20;  // of VFPCLASSPS
  const int64_t end = count - count % kVector;
  for (int64_t i = 0; i < end; i += kVector) {
    const std::byte* const pair = from + i * kFloat32Bytes;
    const __m512 low = _mm512_loadu_ps(pair);
    const __m512 high = _mm512_loadu_ps(pair + 64);
    const __mmask16 is_subnormal =
        static_cast<__mmask16>(_mm512_fpclass_ps_mask(low, kSubnormal) |
                               _mm512_fpclass_ps_mask(high, kSubnormal));
    const __m512i bfloat16s =
        is_subnormal == 0
            ? reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low))
            : NarrowToBFloat16s(_mm512_castps_si512(low),
                                _mm512_castps_si512(high));
    _mm512_storeu_si512(to + i * kFloat16Bytes, bfloat16s);
  }
  return end;
}

// Not asked of __builtin_cpu_supports, since clang 14 does not know the name.
bool ProcessorHasF16c() {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// Processors with AVX2 all have F16C; some virtual ones hide it.
bool HasF16c() {
  static const bool has_f16c = ProcessorHasF16c();
  return has_f16c && CurrentIsa() >= CpuIsa::kAvx2;
}

int64_t WidenVectors(std::byte* to, const std::byte* from, int64_t count) {
  if (CurrentIsa() == CpuIsa::kAvx512) return WidenAvx512(to, from, count);
  return HasF16c() ? WidenAvx2(to, from, count) : 0;
}

int64_t NarrowVectors(std::byte* to, const std::byte* from, int64_t count) {
  if (CurrentIsa() == CpuIsa::kAvx512) return NarrowAvx512(to, from, count);
  return HasF16c() ? NarrowAvx2(to, from, count) : 0;
}

int64_t NarrowBFloat16Vectors(std::byte* to, const std::byte* from,
                              int64_t count) {
  static const bool has_instruction = __builtin_cpu_supports("avx512bf16");
  return has_instruction && CurrentIsa() == CpuIsa::kAvx512
             ? NarrowBFloat16Avx512(to, from, count)
             : 0;
}

#else

int64_t WidenVectors(std::byte*, const std::byte*, int64_t) { return 0; }
int64_t NarrowVectors(std::byte*, const std::byte*, int64_t) { return 0; }
int64_t NarrowBFloat16Vectors(std::byte*, const std::byte*, int64_t) {
  return 0;
}

#endif  // defined(__x86_64__)

}  // namespace

void NarrowToFloat16(std::byte* float16s, const std::byte* float32s,
                     int64_t count) {
  const int64_t done = NarrowVectors(float16s, float32s, count);
  CallOnCpu<NarrowLoop>(float16s + done * kFloat16Bytes,
                        float32s + done * kFloat32Bytes, count - done);
}

void WidenFloat16(std::byte* float32s, const std::byte* float16s,
                  int64_t count) {
  const int64_t done = WidenVectors(float32s, float16s, count);
  CallOnCpu<WidenLoop>(float32s + done * kFloat32Bytes,
                       float16s + done * kFloat16Bytes, count - done);
}

void NarrowToBFloat16(std::byte* bfloat16s, const std::byte* float32s,
                      int64_t count) {
  const int64_t done = NarrowBFloat16Vectors(bfloat16s, float32s, count);
  CallOnCpu<NarrowBFloat16Loop>(bfloat16s + done * kFloat16Bytes,
                                float32s + done * kFloat32Bytes, count - done);
}

}  // namespace ringmaster
