#include "worker/nn/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "common/status/check.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/gemm_packed.h"
#include "worker/nn/gemm_scratch.h"

// The two halves of OpenBLAS's choice of kernels when it is loaded. Exported
// but in no header; weak, because a build of OpenBLAS for one processor only
// does not have them.
extern "C" {
void gotoblas_dynamic_quit() __attribute__((weak));
void gotoblas_dynamic_init() __attribute__((weak));
}

namespace ringmaster {
namespace {

CBLAS_TRANSPOSE ToCblas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

// The kernels for this processor if OpenBLAS did not know it, otherwise null.
const char* BetterCoreType() {
#if defined(__x86_64__)
  const bool is_unknown =
      std::string_view(openblas_get_corename()) == "Prescott";
  if (!is_unknown || std::getenv("OPENBLAS_CORETYPE") != nullptr)
    return nullptr;
  const bool has_avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (has_avx512) return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "Haswell";
#endif
  return nullptr;
}

// Has OpenBLAS choose its kernels again, by the variable that it reads for
// that. Runs before main, because setting a variable is safe only while there
// is one thread.
bool SetUpBlas() {
  openblas_set_num_threads(1);
  const char* const core_type = BetterCoreType();
  if (core_type == nullptr || gotoblas_dynamic_quit == nullptr ||
      gotoblas_dynamic_init == nullptr)
    return false;
  setenv("OPENBLAS_CORETYPE", core_type, /*overwrite=*/1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
  return true;
}

[[maybe_unused]] const bool kIsReselected = SetUpBlas();

// Rows or columns of c that one call of OpenBLAS computes.
constexpr int64_t kBlasBlock = 128;
// Elements that a thread rounds at once.
constexpr int64_t kRoundGrain = 16384;

// The rectangle [row_begin, row_end) x [column_begin, column_end) of c.
struct Block {
  int64_t row_begin;
  int64_t row_end;
  int64_t column_begin;
  int64_t column_end;
};

// A product for OpenBLAS.
template <typename T>
struct Factors {
  Transpose transpose_a;
  Transpose transpose_b;
  GemmShape shape;
  const T* a;
  const T* b;
};

// Rounds as RoundedBits of gemm_panels.h does.
RM_KERNEL void RoundKernel(int64_t count, const float* __restrict from,
                           float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    to[i] =
        std::bit_cast<float>((is_nan ? bits | 0x400000 : rounded) & 0xffff0000);
  }
}

void Round(ThreadPool& pool, int64_t count, const float* from, float* to) {
  pool.ParallelFor(count, kRoundGrain, [&](int64_t begin, int64_t end) {
    CallOnCpu<RoundKernel>(end - begin, from + begin, to + begin);
  });
}

// A bias, or the empty sum.
template <typename T>
void BeginRow(const GemmOutput<T>& output, int64_t row, int64_t columns,
              int64_t begin, int64_t end) {
  if (output.write == Write::kAdd) return;
  T* const c = output.c + row * columns;
  if (output.bias == nullptr) {
    std::fill(c + begin, c + end, T{0});
  } else {
    std::copy(output.bias + begin, output.bias + end, c + begin);
  }
}

// One block of c.
template <typename T>
void MultiplyBlock(const Factors<T>& product, Block block,
                   const GemmOutput<T>& output) {
  const GemmShape& shape = product.shape;
  for (int64_t row = block.row_begin; row < block.row_end; ++row)
    BeginRow(output, row, shape.n, block.column_begin, block.column_end);
  const auto m = static_cast<blasint>(block.row_end - block.row_begin);
  const auto n = static_cast<blasint>(block.column_end - block.column_begin);
  const auto k = static_cast<blasint>(shape.k);
  const bool is_a_transposed = product.transpose_a == Transpose::kYes;
  const bool is_b_transposed = product.transpose_b == Transpose::kYes;
  const T* const a =
      product.a + block.row_begin * (is_a_transposed ? 1 : shape.k);
  const T* const b =
      product.b + block.column_begin * (is_b_transposed ? shape.k : 1);
  T* const c = output.c + block.row_begin * shape.n + block.column_begin;
  const auto lda = static_cast<blasint>(is_a_transposed ? shape.m : shape.k);
  const auto ldb = static_cast<blasint>(is_b_transposed ? shape.k : shape.n);
  const auto ldc = static_cast<blasint>(shape.n);
  const auto call = [&](auto function) {
    function(CblasRowMajor, ToCblas(product.transpose_a),
             ToCblas(product.transpose_b), m, n, k, T{1}, a, lda, b, ldb, T{1},
             c, ldc);
  };
  if constexpr (std::is_same_v<T, float>) {
    call(cblas_sgemm);
  } else {
    call(cblas_dgemm);
  }
}

template <typename T>
void GemmOnBlas(ThreadPool& pool, const Factors<T>& product,
                const GemmOutput<T>& output) {
  const auto [m, n, k] = product.shape;
  const bool is_by_row = product.shape.m > product.shape.n;
  pool.ParallelFor(std::max(m, n), kBlasBlock,
                   [&, rows = m, columns = n](int64_t begin, int64_t end) {
                     const Block block = is_by_row
                                             ? Block{begin, end, 0, columns}
                                             : Block{0, rows, begin, end};
                     MultiplyBlock(product, block, output);
                   });
}

// A product of one row: each element of b is read once, in the order in which it
// lies, while a general product copies it first.
void MultiplyRow(ThreadPool& pool, const Factors<float>& product,
                 const GemmOutput<float>& output) {
  const int64_t n = product.shape.n;
  const auto k = static_cast<blasint>(product.shape.k);
  pool.ParallelFor(n, kBlasBlock, [&](int64_t begin, int64_t end) {
    BeginRow(output, 0, n, begin, end);
    const auto columns = static_cast<blasint>(end - begin);
    float* const c = output.c + begin;
    if (product.transpose_b == Transpose::kYes) {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, columns, k, 1.0f,
                  product.b + begin * product.shape.k, k, product.a, 1, 1.0f, c,
                  1);
    } else {
      cblas_sgemv(CblasRowMajor, CblasTrans, k, columns, 1.0f,
                  product.b + begin, static_cast<blasint>(n), product.a, 1,
                  1.0f, c, 1);
    }
  });
}

#if defined(__x86_64__)
Operand AsOperand(const float* data, bool is_lane_major, int64_t lanes,
                  int64_t depth) {
  return is_lane_major ? Operand{data, depth, 1} : Operand{data, 1, lanes};
}
#endif

void GemmOfFloats(const Compute& compute, Factors<float> product,
                  const GemmOutput<float>& output) {
  const auto [m, n, k] = product.shape;
  const bool is_rounded = compute.precision == Precision::kBFloat16;
  if (m == 1 && !is_rounded) return MultiplyRow(compute.pool, product, output);
#if defined(__x86_64__)
  if (CurrentIsa() != CpuIsa::kBaseline) {
    const bool has_dot = CurrentIsa() == CpuIsa::kAvx512 && IsDotFaster();
    const Operands rounded = has_dot ? Operands::kDot : Operands::kRounded;
    GemmPacked(
        compute.pool, is_rounded ? rounded : Operands::kFloat, product.shape,
        AsOperand(product.a, product.transpose_a == Transpose::kNo, m, k),
        AsOperand(product.b, product.transpose_b == Transpose::kYes, n, k),
        output);
    return;
  }
#endif
  if (is_rounded) {
    auto* const rounded = static_cast<float*>(
        GemmScratch((m * k + k * n) * static_cast<int64_t>(sizeof(float))));
    Round(compute.pool, m * k, product.a, rounded);
    Round(compute.pool, k * n, product.b, rounded + m * k);
    product.a = rounded;
    product.b = rounded + m * k;
  }
  GemmOnBlas(compute.pool, product, output);
}

}  // namespace

std::string_view BlasKernels() { return openblas_get_corename(); }

template <typename T>
void Gemm(const Compute& compute, Transpose transpose_a, Transpose transpose_b,
          GemmShape shape, const T* a, const T* b,
          const GemmOutput<T>& output) {
  RM_CHECK(output.bias == nullptr || output.write == Write::kSet,
           "a bias and a result that is added to");
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) {
    // An empty sum; not left to BLAS, whose implementations differ here.
    for (int64_t row = 0; row < shape.m; ++row)
      BeginRow(output, row, shape.n, 0, shape.n);
    return;
  }
  const Factors<T> product = {transpose_a, transpose_b, shape, a, b};
  if constexpr (std::is_same_v<T, float>) {
    GemmOfFloats(compute, product, output);
  } else {
    GemmOnBlas(compute.pool, product, output);
  }
}

template void Gemm<float>(const Compute&, Transpose, Transpose, GemmShape,
                          const float*, const float*, const GemmOutput<float>&);
template void Gemm<double>(const Compute&, Transpose, Transpose, GemmShape,
                           const double*, const double*,
                           const GemmOutput<double>&);

}  // namespace ringmaster
