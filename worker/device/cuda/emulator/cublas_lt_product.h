// Product describes a matrix product as cuBLASLt's descriptors do, checked and
// in plain numbers; Multiply computes it.
//
// D = epilogue(alpha * op(A) * op(B) + beta * C), matrices column-major, sums
// in fp32. The meaning is that of the comments in NVIDIA's cublasLt.h:
//   BIAS        + bias[row], before an activation
//   RELU, GELU  of the sum; GELU by tanh. RELU of NaN is 0, as fmaxf's
//   GELU_AUX    the sum before the activation goes to aux too
//   DGELU       * GELU'(aux)
//   _BGRAD      bias[row] = sum over D's row
//   BGRADA      bias[row] = sum over op(A)'s row
//   BGRADB      bias[column] = sum over op(B)'s column
// bias and aux are of D's type. Not emulated: masks of RELU_AUX, fp8, integers,
// row-major and other orders, arrays of pointers.
// Thread-safety: pure functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_PRODUCT_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_PRODUCT_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

namespace ringmaster::cuda_emulator {

// The values of descriptors (cublas_lt_descriptors.h).
struct LtMatmulDesc {
  int32_t compute_type = CUBLAS_COMPUTE_32F;
  int32_t scale_type = CUDA_R_32F;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  int32_t transpose_c = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1;
  int32_t aux_type = -1;
  int32_t multiprocessors = 0;
  int8_t fast_accumulation = 0;
  void* bias = nullptr;
  int64_t bias_stride = 0;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int64_t aux_stride = 0;
};

struct LtMatrixLayout {
  uint32_t type = CUDA_R_32F;
  int32_t order = CUBLASLT_ORDER_COL;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct Product {
  int64_t m = 0;  // of D
  int64_t n = 0;
  int64_t k = 0;
  LtMatmulDesc op;
  LtMatrixLayout a;
  LtMatrixLayout b;
  LtMatrixLayout c;
  LtMatrixLayout d;
};

// INVALID_VALUE for layouts that do not fit each other or the epilogue,
// NOT_SUPPORTED for types, orders and epilogues that are not emulated or that
// the real library does not have either.
cublasStatus_t MakeProduct(const LtMatmulDesc& op, const LtMatrixLayout& a,
                           const LtMatrixLayout& b, const LtMatrixLayout& c,
                           const LtMatrixLayout& d, Product* product);

bool HasBias(uint32_t epilogue);  // reads or writes a vector
bool HasAux(uint32_t epilogue);
// The size of the vector, in elements.
int64_t BiasCount(const Product& product);
size_t TypeBytes(uint32_t type);

struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // not read if beta is 0
  void* d = nullptr;
  // In host or device memory, as pointer_mode says.
  const float* alpha = nullptr;
  const float* beta = nullptr;
  // 2 * m * n floats, if the sum shall be computed in two parts.
  float* split_sums = nullptr;
};

void Multiply(const Product& product, const Operands& operands);

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_PRODUCT_H_
