// The matrix product of floats with AVX-512 or AVX2, for Gemm alone.
//
// Built as Goto and van de Geijn describe ("Anatomy of High-Performance Matrix
// Multiplication", TOMS 2008): operands are copied into panels that the inner
// loop reads in order, and a tile of sums (8 x 48, or 6 x 16 with AVX2) stays in
// registers. The copy is also where operands are rounded to bfloat16, which
// therefore costs no pass over memory of its own.
//
// Guarantees: the same result, to the bit, for every size of the pool. After a
// first call of a shape, nothing is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_GEMM_PACKED_H_
#define RINGMASTER_WORKER_NN_GEMM_PACKED_H_

#if defined(__x86_64__)

#include <cstdint>

#include "common/sync/thread_pool.h"
#include "worker/nn/gemm.h"

namespace ringmaster {

// The operands of the inner loop.
enum class Operands {
  kFloat,    // floats
  kRounded,  // floats rounded to bfloat16, as floats: the sums of kDot but for
             // their order, on any processor
  kDot,      // pairs of bfloat16, by AVX-512's instruction VDPBF16PS
};

// One factor of a product: a row of the left one, or a column of the right one,
// is a lane; along it runs the depth, which the product sums over. One of the
// strides is 1.
struct Operand {
  const float* data;
  int64_t lane_stride;
  int64_t depth_stride;
};

// HasDot returns true if this processor can do kDot, IsDotFaster if kDot is
// faster than kRounded. It is on AMD's processors. Intel's run VDPBF16PS at a
// quarter of the rate of a fused multiply-add, so they do half the products per
// second: their unit for bfloat16 is AMX.
bool HasDot();
bool IsDotFaster();

// output.c [m,n] = or += left [m,k] * right [k,n], by CurrentIsa(). Requires m,
// n, k >= 1, and kAvx512 or kAvx2; for kDot kAvx512, and HasDot().
void GemmPacked(ThreadPool& pool, Operands operands, GemmShape shape,
                Operand left, Operand right, const GemmOutput<float>& output);

}  // namespace ringmaster

#endif  // defined(__x86_64__)

#endif  // RINGMASTER_WORKER_NN_GEMM_PACKED_H_
