// Gemm is matrix multiplication on one thread, by OpenBLAS.
//
// Matrices are row-major and dense. One thread, because each worker has its
// cores for itself and OpenBLAS's own threads would fight over them; and
// because the order of additions then depends on the shapes alone.
//
// Debian's OpenBLAS 0.3.21 takes processors that are younger than itself for a
// "Prescott" of 2004 and uses its SSE3 kernels, three times slower than need
// be. This target notices that when the program starts, and has OpenBLAS use
// the kernels for AVX-512 or AVX2 instead; the environment variable
// OPENBLAS_CORETYPE, if set, has the last word.
// Thread-safety: pure; concurrent calls are fine.
#ifndef RINGMASTER_WORKER_NN_GEMM_H_
#define RINGMASTER_WORKER_NN_GEMM_H_

#include <cstdint>
#include <string_view>

namespace ringmaster {

enum class Transpose : bool { kNo, kYes };

// The dimensions of a product [m,k] * [k,n] -> [m,n].
struct GemmShape {
  int64_t m;
  int64_t n;
  int64_t k;
};

// The name of the kernels that OpenBLAS uses, for logs: "SkylakeX".
std::string_view BlasKernels();

// c = alpha * op(a) * op(b) + beta * c, with op(a) [m,k], op(b) [k,n] and c
// [m,n]; a transposed operand is stored as [k,m] or [n,k]. With beta 0, c need
// not be initialized. Dimensions may be 0. T is float or double.
template <typename T>
void Gemm(Transpose transpose_a, Transpose transpose_b, GemmShape shape,
          T alpha, const T* a, const T* b, T beta, T* c);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GEMM_H_
