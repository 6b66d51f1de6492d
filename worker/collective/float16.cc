#include "worker/collective/float16.h"

#include <bit>
#include <cstring>

#include "common/tensor/cpu_dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ringmaster {
namespace {

constexpr int64_t kFloat16Bytes = 2;
constexpr int64_t kFloat32Bytes = 4;

// Bit patterns of float32. The first is the difference of the exponents' biases.
constexpr uint32_t kRebias = (127 - 15) << 23;
constexpr uint32_t kQuiet = 1 << 22;
constexpr int32_t kSmallestNormal = (127 - 14) << 23;  // 2^-14
constexpr int32_t kTooLarge = (127 + 16) << 23;        // 2^16

// `yes` or `no`, by arithmetic: what ?: selects between, the compiler may put
// into branches, and then a loop does not become vectors.
RM_KERNEL uint32_t Select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

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
  // The carry of rounding makes an infinity of what is less than 2^16 but nearer
  // to it than to the largest float16.
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

#if defined(__x86_64__)

// The loops above stay far below the speed of memory, even in wide vectors;
// the instructions of F16C do not, and have the same results.
constexpr int64_t kVector = 8;

// Not asked of __builtin_cpu_supports, since clang 14 does not know the name.
bool ProcessorHasF16c() {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// Processors with AVX2 all have F16C; some virtual ones hide it.
bool UsesF16c() {
  static const bool has_f16c = ProcessorHasF16c();
  return has_f16c && CurrentIsa() >= CpuIsa::kAvx2;
}

// These two take whole vectors only.

[[gnu::target("avx2,f16c")]] void WidenVectors(std::byte* to,
                                               const std::byte* from,
                                               int64_t count) {
  for (int64_t i = 0; i < count; i += kVector) {
    const __m128i float16s = _mm_loadu_si128(
        reinterpret_cast<const __m128i*>(from + i * kFloat16Bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * kFloat32Bytes),
                        _mm256_castps_si256(_mm256_cvtph_ps(float16s)));
  }
}

[[gnu::target("avx2,f16c")]] void NarrowVectors(std::byte* to,
                                                const std::byte* from,
                                                int64_t count) {
  for (int64_t i = 0; i < count; i += kVector) {
    const __m256 float32s = _mm256_castsi256_ps(_mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(from + i * kFloat32Bytes)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kFloat16Bytes),
                     _mm256_cvtps_ph(float32s, _MM_FROUND_TO_NEAREST_INT));
  }
}

// How many of `count` elements the vectors take.
int64_t InVectors(int64_t count) {
  return UsesF16c() ? count - count % kVector : 0;
}

#else

int64_t InVectors(int64_t) { return 0; }
void WidenVectors(std::byte*, const std::byte*, int64_t) {}
void NarrowVectors(std::byte*, const std::byte*, int64_t) {}

#endif  // defined(__x86_64__)

}  // namespace

void NarrowToFloat16(std::byte* float16s, const std::byte* float32s,
                     int64_t count) {
  const int64_t done = InVectors(count);
  NarrowVectors(float16s, float32s, done);
  CallOnCpu<NarrowLoop>(float16s + done * kFloat16Bytes,
                        float32s + done * kFloat32Bytes, count - done);
}

void WidenFloat16(std::byte* float32s, const std::byte* float16s,
                  int64_t count) {
  const int64_t done = InVectors(count);
  WidenVectors(float32s, float16s, done);
  CallOnCpu<WidenLoop>(float32s + done * kFloat32Bytes,
                       float16s + done * kFloat16Bytes, count - done);
}

}  // namespace ringmaster
