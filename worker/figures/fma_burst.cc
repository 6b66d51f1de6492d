#include "worker/figures/fma_burst.h"

#include <cstddef>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringmaster {
namespace {

// Read once for each chain, so that the compiler cannot know that all chains
// start alike and keep only one of them.
volatile float zero = 0;

template <typename Vector>
double SumOfLanes(const Vector* chains, int64_t count) {
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) {
    const auto* lanes = reinterpret_cast<const float*>(&chains[c]);
    for (size_t i = 0; i < sizeof(Vector) / sizeof(float); ++i) sum += lanes[i];
  }
  return sum;
}

// 128 bits on any processor: 12 chains and what they share fit into 16
// registers.
constexpr int64_t kBaseChains = 12;
using Vec4 [[gnu::vector_size(16), gnu::may_alias]] = float;

double RunBase(int64_t iterations, float factor, float addend) {
  const Vec4 factors = Vec4{} + factor;
  const Vec4 addends = Vec4{} + addend;
  Vec4 acc[kBaseChains];
  for (Vec4& chain : acc) chain = Vec4{} + zero;
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int64_t c = 0; c < kBaseChains; ++c)
      acc[c] = acc[c] * factors + addends;
  }
  return SumOfLanes(acc, kBaseChains);
}

#if defined(__x86_64__)

constexpr int64_t kAvx2Chains = 12;  // of 16 registers

[[gnu::target("avx2,fma")]] double RunAvx2(int64_t iterations, float factor,
                                           float addend) {
  const __m256 factors = _mm256_set1_ps(factor);
  const __m256 addends = _mm256_set1_ps(addend);
  __m256 acc[kAvx2Chains];
  for (__m256& chain : acc) chain = _mm256_set1_ps(zero);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int64_t c = 0; c < kAvx2Chains; ++c)
      acc[c] = _mm256_fmadd_ps(acc[c], factors, addends);
  }
  return SumOfLanes(acc, kAvx2Chains);
}

constexpr int64_t kAvx512Chains = 16;  // of 32 registers

[[gnu::target("avx512f")]] double RunAvx512(int64_t iterations, float factor,
                                            float addend) {
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512 addends = _mm512_set1_ps(addend);
  __m512 acc[kAvx512Chains];
  for (__m512& chain : acc) chain = _mm512_set1_ps(zero);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int64_t c = 0; c < kAvx512Chains; ++c)
      acc[c] = _mm512_fmadd_ps(acc[c], factors, addends);
  }
  return SumOfLanes(acc, kAvx512Chains);
}

[[gnu::target("avx512f,avx512bf16")]] double RunAvx512Bf16(int64_t iterations,
                                                           float factor,
                                                           float addend) {
  const __m512 wide_factors = _mm512_set1_ps(factor);
  const __m512 wide_addends = _mm512_set1_ps(addend);
  const __m512bh factors = _mm512_cvtne2ps_pbh(wide_factors, wide_factors);
  const __m512bh addends = _mm512_cvtne2ps_pbh(wide_addends, wide_addends);
  __m512 acc[kAvx512Chains];
  for (__m512& chain : acc) chain = _mm512_set1_ps(zero);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int64_t c = 0; c < kAvx512Chains; ++c)
      acc[c] = _mm512_dpbf16_ps(acc[c], factors, addends);
  }
  return SumOfLanes(acc, kAvx512Chains);
}

#endif

}  // namespace

std::vector<FmaBurst> Float32Bursts() {
  std::vector<FmaBurst> bursts;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    bursts.push_back({"avx512f", kAvx512Chains * 16 * 2, &RunAvx512});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    bursts.push_back({"avx2+fma", kAvx2Chains * 8 * 2, &RunAvx2});
  }
#endif
  bursts.push_back({"128 bits", kBaseChains * 4 * 2, &RunBase});
  return bursts;
}

std::vector<FmaBurst> BFloat16Bursts() {
  std::vector<FmaBurst> bursts;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) {
    bursts.push_back({"avx512bf16", kAvx512Chains * 32 * 2, &RunAvx512Bf16});
  }
#endif
  return bursts;
}

}  // namespace ringmaster
