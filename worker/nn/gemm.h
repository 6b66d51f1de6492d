// Gemm is matrix multiplication, on the threads of a pool.
//
// Matrices are row-major and dense. Products of floats run on kernels of our
// own where the processor has AVX-512 or AVX2 (gemm_packed.h), unless the result
// is one row; everything else is OpenBLAS, on one thread for each block of the
// result.
//
// With Precision::kBFloat16 (T = float) both factors are rounded to bfloat16,
// to nearest and ties to even, on their way into the product; sums and the
// result are float.
//
// Debian's OpenBLAS 0.3.21 takes processors that are younger than itself for a
// "Prescott" of 2004 and uses its SSE3 kernels, three times slower than need
// be. This target notices that when the program starts, and has OpenBLAS use
// the kernels for AVX-512 or AVX2 instead; the environment variable
// OPENBLAS_CORETYPE, if set, has the last word.
//
// Guarantees: the same result, to the bit, for every size of the pool. After a
// first call of a shape, nothing is allocated: the calling thread keeps scratch
// for the largest product so far. With kernels of our own that is a few MiB, for
// wide operands 3 KiB for each row or column of the narrower side; without, and
// with kBFloat16, it is both rounded factors.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_GEMM_H_
#define RINGMASTER_WORKER_NN_GEMM_H_

#include <cstdint>
#include <string_view>

#include "worker/nn/compute.h"

namespace ringmaster {

enum class Transpose : bool { kNo, kYes };

// The dimensions of a product [m,k] * [k,n] -> [m,n].
struct GemmShape {
  int64_t m;
  int64_t n;
  int64_t k;
};

// The destination of a product.
template <typename T>
struct GemmOutput {
  T* c;  // [m,n]
  Write write = Write::kSet;
  // [n], added to each row; may be null. With kSet only.
  const T* bias = nullptr;
};

// The name of the kernels that OpenBLAS uses, for logs: "SkylakeX".
std::string_view BlasKernels();

// output.c = or += op(a) * op(b), with op(a) [m,k] and op(b) [k,n]; a
// transposed operand is stored as [k,m] or [n,k]. Dimensions may be 0. `c` must
// not overlap a or b. T is float or double.
template <typename T>
void Gemm(const Compute& compute, Transpose transpose_a, Transpose transpose_b,
          GemmShape shape, const T* a, const T* b, const GemmOutput<T>& output);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GEMM_H_
