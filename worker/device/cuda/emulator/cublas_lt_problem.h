// A small matrix product of cuBLASLt, for tests: 13 x 9, of depth 21, with
// padding, a vector and an auxiliary matrix.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_PROBLEM_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_PROBLEM_H_

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace ringmaster::cuda_emulator {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline size_t Bytes(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

inline float Get(const void* data, cudaDataType type, int64_t i) {
  if (type == CUDA_R_16BF) {
    return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  }
  if (type == CUDA_R_16F) {
    return __half2float(static_cast<const __half*>(data)[i]);
  }
  return static_cast<const float*>(data)[i];
}

inline void Put(void* data, cudaDataType type, int64_t i, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  } else if (type == CUDA_R_16F) {
    static_cast<__half*>(data)[i] = __float2half(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

// A batch of column-major matrices in device memory, with rows of padding that
// stay NaN.
struct Matrix {
  Matrix(cudaDataType type, int64_t rows, int64_t columns, int64_t ld,
         int batch)
      : type(type),
        rows(rows),
        columns(columns),
        ld(ld),
        stride((ld * columns + 7) / 8 * 8) {
    EXPECT_EQ(cudaMalloc(&data, batch * stride * Bytes(type)), cudaSuccess);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, type, rows, columns, ld),
              CUBLAS_STATUS_SUCCESS);
    Set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{batch});
    Set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  ~Matrix() { cublasLtMatrixLayoutDestroy(layout); }

  template <typename T>
  void Set(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value,
                                               sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  int64_t Index(int batch, int64_t row, int64_t column) const {
    return batch * stride + column * ld + row;
  }
  float at(int batch, int64_t row, int64_t column) const {
    return Get(data, type, Index(batch, row, column));
  }
  float at(int batch, int64_t row, int64_t column, bool is_transposed) const {
    return is_transposed ? at(batch, column, row) : at(batch, row, column);
  }
  void Randomize(int batch, std::minstd_rand& random) {
    std::uniform_real_distribution<float> values(-1.0f, 1.0f);
    for (int b = 0; b < batch; ++b) {
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < rows; ++i) {
          Put(data, type, Index(b, i, j), values(random));
        }
      }
    }
  }

  cudaDataType type;
  int64_t rows;
  int64_t columns;
  int64_t ld;
  int64_t stride;
  void* data = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
};

struct Case {
  cudaDataType in = CUDA_R_32F;
  cudaDataType out = CUDA_R_32F;
  bool transpose_a = false;
  bool transpose_b = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float beta = 0.0f;
  int batch = 1;
};

// The product with all of its operands. C and the padding hold NaN where
// nothing may read them.
class Problem {
 public:
  static constexpr int64_t kM = 13;
  static constexpr int64_t kN = 9;
  static constexpr int64_t kK = 21;

  explicit Problem(const Case& c)
      : c_(c),
        a(c.in, c.transpose_a ? kK : kM, c.transpose_a ? kM : kK, 24, c.batch),
        b(c.in, c.transpose_b ? kN : kK, c.transpose_b ? kK : kN, 24, c.batch),
        old(c.out, kM, kN, 16, c.batch),
        d(c.out, kM, kN, 16, c.batch),
        bias(c.out, kM, 1, kM, c.batch),
        aux(c.out, kM, kN, 16, c.batch) {
    std::minstd_rand random(7);
    for (Matrix* matrix : {&a, &b, &old, &bias, &aux}) {
      matrix->Randomize(c.batch, random);
    }
    if (c.beta == 0.0f) Put(old.data, c.out, 0, kNan);  // must not be read
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    Set(CUBLASLT_MATMUL_DESC_TRANSA,
        int32_t{c.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N});
    Set(CUBLASLT_MATMUL_DESC_TRANSB,
        int32_t{c.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N});
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{c.epilogue});
    Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);
    Set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias.stride);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux.ld);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux.stride);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaMalloc(&workspace, kWorkspaceBytes), cudaSuccess);
    SetPreference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  }
  ~Problem() {
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(op);
    cublasLtDestroy(handle);
  }

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(
        cublasLtMatmulDescSetAttribute(op, attribute, &value, sizeof(value)),
        CUBLAS_STATUS_SUCCESS);
  }
  template <typename T>
  void SetPreference(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, attribute,
                                                   &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> Algorithms(
      cublasStatus_t expected = CUBLAS_STATUS_SUCCESS) {
    std::vector<cublasLtMatmulHeuristicResult_t> results(8);
    int count = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, op, a.layout, b.layout,
                                             old.layout, d.layout, preference,
                                             8, results.data(), &count),
              expected);
    results.resize(count);
    return results;
  }

  cublasStatus_t Run(const cublasLtMatmulAlgo_t* algo = nullptr) {
    const float alpha = kAlpha;
    const cublasStatus_t status =
        cublasLtMatmul(handle, op, &alpha, a.data, a.layout, b.data, b.layout,
                       &c_.beta, old.data, old.layout, d.data, d.layout, algo,
                       workspace, workspace_bytes, nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return status;
  }

  static constexpr float kAlpha = 0.5f;
  static constexpr uint64_t kWorkspaceBytes = 1 << 16;

 private:
  const Case c_;

 public:
  Matrix a;
  Matrix b;
  Matrix old;
  Matrix d;
  Matrix bias;  // only its first 9 are of the columns' case
  Matrix aux;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = kWorkspaceBytes;
};

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_PROBLEM_H_
