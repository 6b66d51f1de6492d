// cuBLASLt's functions that make and fill descriptors.
#include "worker/device/cuda/emulator/cublas_lt_descriptors.h"

#include <cublasLt.h>

#include <cstring>
#include <new>

namespace ringmaster::cuda_emulator {
namespace {

template <typename T, typename Opaque>
cublasStatus_t Init(Opaque* opaque, size_t bytes, const T& value) {
  if (opaque == nullptr || bytes < sizeof(Opaque)) {
    return CUBLAS_STATUS_ALLOC_FAILED;
  }
  new (opaque) Marked<T>{.value = value};
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Opaque>
cublasStatus_t Create(Opaque** opaque, const T& value) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = new Opaque();
  return Init(*opaque, sizeof(Opaque), value);
}

template <typename Opaque>
cublasStatus_t Destroy(Opaque* opaque) {
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

// Sets `*field` if the buffer is of its size.
template <typename T>
cublasStatus_t Set(T* field, const void* buffer, size_t bytes) {
  if (buffer == nullptr || bytes != sizeof(T)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(field, buffer, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc,
                                               size_t size,
                                               cublasComputeType_t compute_type,
                                               cudaDataType_t scale_type) {
  return Init(
      desc, size,
      LtMatmulDesc{.compute_type = compute_type, .scale_type = scale_type});
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return Create(desc, LtMatmulDesc{.compute_type = compute_type,
                                   .scale_type = scale_type});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return Destroy(desc);
}

// Scale factors of fp8 and the like are not emulated.
cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
    const void* buffer, size_t bytes) {
  LtMatmulDesc* const op = Open<LtMatmulDesc>(desc);
  if (op == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return Set(&op->compute_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return Set(&op->scale_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return Set(&op->pointer_mode, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(&op->transpose_a, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(&op->transpose_b, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return Set(&op->transpose_c, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(&op->epilogue, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(&op->bias, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return Set(&op->bias_stride, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return Set(&op->bias_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return Set(&op->aux, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return Set(&op->aux_ld, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return Set(&op->aux_stride, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return Set(&op->aux_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return Set(&op->multiprocessors, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return Set(&op->fast_accumulation, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 size_t size, cudaDataType type,
                                                 uint64_t rows,
                                                 uint64_t columns, int64_t ld) {
  return Init(
      layout, size,
      LtMatrixLayout{.type = type, .rows = rows, .columns = columns, .ld = ld});
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  return Create(
      layout,
      LtMatrixLayout{.type = type, .rows = rows, .columns = columns, .ld = ld});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t opaque, cublasLtMatrixLayoutAttribute_t attribute,
    const void* buffer, size_t bytes) {
  LtMatrixLayout* const layout = Open<LtMatrixLayout>(opaque);
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return Set(&layout->type, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return Set(&layout->order, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return Set(&layout->rows, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return Set(&layout->columns, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return Set(&layout->ld, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Set(&layout->batch, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Set(&layout->stride, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(
    cublasLtMatmulPreference_t preference, size_t size) {
  return Init(preference, size, LtPreference());
}

cublasStatus_t cublasLtMatmulPreferenceCreate(
    cublasLtMatmulPreference_t* preference) {
  return Create(preference, LtPreference());
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t preference) {
  return Destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t opaque,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* buffer,
    size_t bytes) {
  LtPreference* const preference = Open<LtPreference>(opaque);
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return Set(&preference->search_mode, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(&preference->workspace_bytes, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return Set(&preference->reduction_mask, buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return Set(&preference->alignment[0], buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return Set(&preference->alignment[1], buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return Set(&preference->alignment[2], buffer, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Set(&preference->alignment[3], buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

}  // extern "C"
}  // namespace ringmaster::cuda_emulator
