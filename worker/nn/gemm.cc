#include "worker/nn/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <type_traits>

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

}  // namespace

std::string_view BlasKernels() { return openblas_get_corename(); }

template <typename T>
void Gemm(Transpose transpose_a, Transpose transpose_b, GemmShape shape,
          T alpha, const T* a, const T* b, T beta, T* c) {
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) {
    // An empty sum; not left to BLAS, whose implementations differ here.
    std::for_each(c, c + shape.m * shape.n,
                  [beta](T& x) { x = beta == 0 ? T{0} : beta * x; });
    return;
  }
  const auto m = static_cast<blasint>(shape.m);
  const auto n = static_cast<blasint>(shape.n);
  const auto k = static_cast<blasint>(shape.k);
  const blasint lda = transpose_a == Transpose::kYes ? m : k;
  const blasint ldb = transpose_b == Transpose::kYes ? k : n;
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, ToCblas(transpose_a), ToCblas(transpose_b), m, n,
                k, alpha, a, lda, b, ldb, beta, c, n);
  } else {
    cblas_dgemm(CblasRowMajor, ToCblas(transpose_a), ToCblas(transpose_b), m, n,
                k, alpha, a, lda, b, ldb, beta, c, n);
  }
}

template void Gemm<float>(Transpose, Transpose, GemmShape, float, const float*,
                          const float*, float, float*);
template void Gemm<double>(Transpose, Transpose, GemmShape, double,
                           const double*, const double*, double, double*);

}  // namespace ringmaster
