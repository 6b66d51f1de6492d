// Matrix products of one thread against the core's peak of fused multiply-adds,
// and against OpenBLAS, for each kind of vectors that this processor has.
//
//   matmul_bench
//
// Shapes are those of a step of GPT-2 124M with 256 tokens: forward, gradients of
// inputs, gradients of weights. All take turns, so that a disturbance meets all;
// each figure is the best of several rounds.
#include <cblas.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/gemm.h"

namespace ringmaster {
namespace {

constexpr int kRounds = 7;

struct Product {
  const char* name;
  Transpose a;
  Transpose b;
  GemmShape shape;
};

constexpr Product kProducts[] = {
    {"forward, 768 to 3072", Transpose::kNo, Transpose::kNo, {256, 3072, 768}},
    {"forward, 3072 to 768", Transpose::kNo, Transpose::kNo, {256, 768, 3072}},
    {"logits", Transpose::kNo, Transpose::kYes, {256, 50257, 768}},
    {"gradient of inputs", Transpose::kNo, Transpose::kYes, {256, 768, 3072}},
    {"gradient of weights", Transpose::kYes, Transpose::kNo, {768, 3072, 256}},
};

// Twelve chains are enough for two units with a latency of four or five.
[[gnu::target("avx2,fma")]] double FmasAvx2(int64_t count) {
  __m256 sums[12];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1);
  const __m256 x = _mm256_set1_ps(0.999f);
  for (int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, x, x);
  }
  __m256 all = sums[0];
  for (const __m256& sum : sums) all = _mm256_add_ps(all, sum);
  return _mm256_cvtss_f32(all);
}

[[gnu::target("avx512f")]] double FmasAvx512(int64_t count) {
  __m512 sums[12];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1);
  const __m512 x = _mm512_set1_ps(0.999f);
  for (int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, x, x);
  }
  __m512 all = sums[0];
  for (const __m512& sum : sums) all = _mm512_add_ps(all, sum);
  return _mm512_cvtss_f32(all);
}

// GFLOP/s of `flops` done by run().
template <typename Run>
double Rate(double flops, Run run) {
  const MonotonicTime begin = Clock::Real().Now();
  run();
  return flops / absl::ToDoubleSeconds(Clock::Real().Now() - begin) / 1e9;
}

double PeakRate(CpuIsa isa) {
  constexpr int64_t kCount = 4'000'000;
  volatile double keep = 0;
  const bool is_wide = isa == CpuIsa::kAvx512;
  return Rate(2.0 * 12 * (is_wide ? 16 : 8) * kCount,
              [&] { keep = is_wide ? FmasAvx512(kCount) : FmasAvx2(kCount); });
}

// What takes turns: our product in float and in bfloat16, and OpenBLAS's.
struct Rates {
  double ours = 0;
  double ours_bfloat16 = 0;
  double blas = 0;
};

void Measure(const Product& product, ThreadPool& pool,
             const std::vector<float>& a, const std::vector<float>& b,
             std::vector<float>& c, Rates& best) {
  const auto [m, n, k] = product.shape;
  const double flops =
      2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  const auto ours = [&](Precision precision) {
    return Rate(flops, [&] {
      Gemm<float>({.pool = pool, .precision = precision}, product.a, product.b,
                  product.shape, a.data(), b.data(), {.c = c.data()});
    });
  };
  best.ours = std::max(best.ours, ours(Precision::kFloat32));
  best.ours_bfloat16 = std::max(best.ours_bfloat16, ours(Precision::kBFloat16));
  const bool is_a_transposed = product.a == Transpose::kYes;
  const bool is_b_transposed = product.b == Transpose::kYes;
  const double blas = Rate(flops, [&, m = m, n = n, k = k] {
    cblas_sgemm(CblasRowMajor, is_a_transposed ? CblasTrans : CblasNoTrans,
                is_b_transposed ? CblasTrans : CblasNoTrans,
                static_cast<blasint>(m), static_cast<blasint>(n),
                static_cast<blasint>(k), 1, a.data(),
                static_cast<blasint>(is_a_transposed ? m : k), b.data(),
                static_cast<blasint>(is_b_transposed ? k : n), 0, c.data(),
                static_cast<blasint>(n));
  });
  best.blas = std::max(best.blas, blas);
}

int Main() {
  ThreadPool pool(1);
  std::printf("OpenBLAS has kernels for %s\n\n",
              std::string(BlasKernels()).c_str());
  std::printf(
      "| vectors | product | ours, GFLOP/s | of the peak | ours, bfloat16 | "
      "OpenBLAS |\n|---|---|---|---|---|---|\n");
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    const ScopedIsaCap cap(isa);
    if (CurrentIsa() != isa) continue;
    for (const Product& product : kProducts) {
      const auto [m, n, k] = product.shape;
      const std::vector<float> a(static_cast<size_t>(m * k), 0.5f);
      const std::vector<float> b(static_cast<size_t>(k * n), 0.25f);
      std::vector<float> c(static_cast<size_t>(m * n));
      double peak = 0;
      Rates best;
      for (int round = 0; round < kRounds; ++round) {
        peak = std::max(peak, PeakRate(isa));
        Measure(product, pool, a, b, c, best);
      }
      std::printf("| %s | %s | %.0f | %.0f %% of %.0f | %.0f | %.0f |\n",
                  std::string(CpuIsaName(isa)).c_str(), product.name, best.ours,
                  100 * best.ours / peak, peak, best.ours_bfloat16, best.blas);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main() { return ringmaster::Main(); }
