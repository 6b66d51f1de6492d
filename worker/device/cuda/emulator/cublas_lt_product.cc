#include "worker/device/cuda/emulator/cublas_lt_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <vector>

namespace ringmaster::cuda_emulator {
namespace {

bool IsOneOf(uint32_t value, std::initializer_list<uint32_t> values) {
  for (const uint32_t each : values) {
    if (value == each) return true;
  }
  return false;
}

// cuBLAS' table of types for a compute type of fp32: both operands of one type;
// the output of that type too, or fp32.
bool AreTypesSupported(const LtMatmulDesc& op, const LtMatrixLayout& a,
                       const LtMatrixLayout& b, const LtMatrixLayout& c,
                       const LtMatrixLayout& d) {
  if (op.scale_type != CUDA_R_32F || a.type != b.type || c.type != d.type) {
    return false;
  }
  switch (op.compute_type) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return IsOneOf(a.type, {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) &&
             (d.type == a.type || d.type == CUDA_R_32F);
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return a.type == CUDA_R_32F && d.type == CUDA_R_32F;
    default:
      return false;
  }
}

bool IsEpilogueSupported(uint32_t epilogue) {
  return IsOneOf(epilogue,
                 {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                  CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                  CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
                  CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                  CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD,
                  CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB});
}

bool IsLayoutValid(const LtMatrixLayout& layout) {
  return layout.rows > 0 && layout.columns > 0 && layout.batch > 0 &&
         layout.ld >= static_cast<int64_t>(layout.rows) && layout.stride >= 0;
}

bool IsAuxValid(const Product& product) {
  const LtMatmulDesc& op = product.op;
  return op.aux_ld >= product.m && op.aux_ld % 8 == 0 &&
         op.aux_stride % 8 == 0 &&
         (product.d.batch == 1 || op.aux_stride >= op.aux_ld * product.n);
}

float ToTf32(float value) {
  if (!std::isfinite(value)) return value;
  // Rounds to 10 bits behind the point, to nearest, halves away from zero.
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) &
                              ~0x1FFFu);
}

float Load(const void* data, uint32_t type, int64_t i) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void Store(void* data, uint32_t type, int64_t i, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
      return;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __float2half(value);
      return;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

// op(matrix) of one batch entry as rows x columns floats, column-major.
std::vector<float> Unpack(const void* data, const LtMatrixLayout& layout,
                          bool is_transposed, int64_t batch, bool is_tf32) {
  const int64_t rows =
      static_cast<int64_t>(is_transposed ? layout.columns : layout.rows);
  const int64_t columns =
      static_cast<int64_t>(is_transposed ? layout.rows : layout.columns);
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = is_transposed ? i * layout.ld + j : j * layout.ld + i;
      const float value = Load(data, layout.type, batch * layout.stride + at);
      values[j * rows + i] = is_tf32 ? ToTf32(value) : value;
    }
  }
  return values;
}

// sums (m x n) = the columns [begin, end) of a (m x k) times those rows of b.
void MultiplyPart(const Product& product, const std::vector<float>& a,
                  const std::vector<float>& b, int64_t begin, int64_t end,
                  float* sums) {
  const int64_t m = product.m;
  for (int64_t j = 0; j < product.n; ++j) {
    float* const __restrict__ sum = sums + j * m;
    for (int64_t i = 0; i < m; ++i) sum[i] = 0.0f;
    for (int64_t p = begin; p < end; ++p) {
      const float* const __restrict__ column = &a[p * m];
      const float factor = b[j * product.k + p];
      for (int64_t i = 0; i < m; ++i) sum[i] += column[i] * factor;
    }
  }
}

// The tanh approximation, as everywhere: sqrt(2 / pi) and 0.044715.
constexpr float kGeluScale = 0.7978845608028654f;
constexpr float kGeluCubic = 0.044715f;

float Gelu(float x) {
  return 0.5f * x *
         (1.0f + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}

float GeluSlope(float x) {
  const float t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kGeluScale *
                                 (1.0f + 3.0f * kGeluCubic * x * x);
}

// D's element from the scaled sum `x`. `aux_at` is its index in aux.
float Finish(const Product& product, float x, int64_t row, int64_t batch,
             int64_t aux_at) {
  const LtMatmulDesc& op = product.op;
  if ((op.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
    x += Load(op.bias, product.d.type, batch * op.bias_stride + row);
  }
  switch (op.epilogue & ~uint32_t{CUBLASLT_EPILOGUE_BIAS}) {
    case CUBLASLT_EPILOGUE_RELU:
      return std::fmax(x, 0.0f);
    case CUBLASLT_EPILOGUE_GELU_AUX:
      Store(op.aux, product.d.type, aux_at, x);
      return Gelu(x);
    case CUBLASLT_EPILOGUE_GELU:
      return Gelu(x);
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return x * GeluSlope(Load(op.aux, product.d.type, aux_at));
    default:
      return x;
  }
}

// Sums of the rows of a (rows x columns) matrix, or of its columns.
std::vector<float> Sums(const std::vector<float>& values, int64_t rows,
                        bool of_rows) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  std::vector<float> sums(static_cast<size_t>(of_rows ? rows : columns));
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      sums[of_rows ? i : j] += values[j * rows + i];
    }
  }
  return sums;
}

void StoreVector(const Product& product, int64_t batch,
                 const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Store(product.op.bias, product.d.type,
          batch * product.op.bias_stride + static_cast<int64_t>(i), values[i]);
  }
}

void MultiplyOne(const Product& product, const Operands& operands,
                 int64_t batch) {
  const LtMatmulDesc& op = product.op;
  const bool is_tf32 = op.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto a = Unpack(operands.a, product.a, op.transpose_a != CUBLAS_OP_N,
                        batch, is_tf32);
  const auto b = Unpack(operands.b, product.b, op.transpose_b != CUBLAS_OP_N,
                        batch, is_tf32);
  const int64_t m = product.m;
  const int64_t n = product.n;
  std::vector<float> sums(static_cast<size_t>(m * n));
  if (operands.split_sums != nullptr) {
    float* const second = operands.split_sums + m * n;
    MultiplyPart(product, a, b, 0, product.k / 2, operands.split_sums);
    MultiplyPart(product, a, b, product.k / 2, product.k, second);
    for (int64_t i = 0; i < m * n; ++i) {
      sums[i] = operands.split_sums[i] + second[i];
    }
  } else {
    MultiplyPart(product, a, b, 0, product.k, sums.data());
  }
  const float alpha = *operands.alpha;
  const float beta = *operands.beta;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      float x = alpha * sums[j * m + i];
      if (beta != 0.0f) {
        x += beta * Load(operands.c, product.c.type,
                         batch * product.c.stride + j * product.c.ld + i);
      }
      x = Finish(product, x, i, batch,
                 batch * op.aux_stride + j * op.aux_ld + i);
      sums[j * m + i] = x;
      Store(operands.d, product.d.type,
            batch * product.d.stride + j * product.d.ld + i, x);
    }
  }
  if (op.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
    StoreVector(product, batch, Sums(sums, m, /*of_rows=*/true));
  } else if (op.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    StoreVector(product, batch, Sums(a, m, /*of_rows=*/true));
  } else if (op.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    StoreVector(product, batch, Sums(b, product.k, /*of_rows=*/false));
  }
}

}  // namespace

bool HasBias(uint32_t epilogue) {
  return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 ||
         IsOneOf(epilogue,
                 {CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
                  CUBLASLT_EPILOGUE_BGRADB});
}

bool HasAux(uint32_t epilogue) { return (epilogue & 128) != 0; }

int64_t BiasCount(const Product& product) {
  return product.op.epilogue == CUBLASLT_EPILOGUE_BGRADB ? product.n
                                                         : product.m;
}

size_t TypeBytes(uint32_t type) { return type == CUDA_R_32F ? 4 : 2; }

cublasStatus_t MakeProduct(const LtMatmulDesc& op, const LtMatrixLayout& a,
                           const LtMatrixLayout& b, const LtMatrixLayout& c,
                           const LtMatrixLayout& d, Product* product) {
  for (const LtMatrixLayout* layout : {&a, &b, &c, &d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!IsLayoutValid(*layout)) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool a_is_transposed = op.transpose_a != CUBLAS_OP_N;
  const bool b_is_transposed = op.transpose_b != CUBLAS_OP_N;
  const uint64_t m = a_is_transposed ? a.columns : a.rows;
  const uint64_t k = a_is_transposed ? a.rows : a.columns;
  const uint64_t n = b_is_transposed ? b.rows : b.columns;
  if (k != (b_is_transposed ? b.columns : b.rows) || d.rows != m ||
      d.columns != n || c.rows != m || c.columns != n) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (d.batch > 1 && d.stride < d.ld * static_cast<int64_t>(n)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!AreTypesSupported(op, a, b, c, d) || !IsEpilogueSupported(op.epilogue) ||
      op.transpose_c != CUBLAS_OP_N ||
      op.pointer_mode > CUBLASLT_POINTER_MODE_DEVICE ||
      (op.bias_type != -1 && op.bias_type != static_cast<int32_t>(d.type)) ||
      (op.aux_type != -1 && op.aux_type != static_cast<int32_t>(d.type))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *product = {.m = static_cast<int64_t>(m),
              .n = static_cast<int64_t>(n),
              .k = static_cast<int64_t>(k),
              .op = op,
              .a = a,
              .b = b,
              .c = c,
              .d = d};
  if (HasAux(op.epilogue) && !IsAuxValid(*product)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

void Multiply(const Product& product, const Operands& operands) {
  for (int64_t batch = 0; batch < product.d.batch; ++batch) {
    MultiplyOne(product, operands, batch);
  }
}

}  // namespace ringmaster::cuda_emulator
