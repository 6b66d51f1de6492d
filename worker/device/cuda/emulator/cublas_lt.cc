// cuBLASLt's functions except those of descriptors, on top of
// cublas_lt_product.h.
//
// There are three algorithms, which give about the same result: one for
// pointers and columns at multiples of 16 bytes, one that needs workspace, and
// one that takes anything. So a caller must ask which it can use.
#include <cublasLt.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "worker/device/cuda/emulator/activity.h"
#include "worker/device/cuda/emulator/cublas_lt_descriptors.h"
#include "worker/device/cuda/emulator/cublas_lt_product.h"
#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

enum class Algorithm : uint64_t { kAligned = 1, kSplit = 2, kPlain = 3 };

constexpr uint64_t kAlignedBytes = 16;

uint64_t WorkspaceBytes(Algorithm algorithm, const Product& product) {
  if (algorithm != Algorithm::kSplit) return 0;
  return static_cast<uint64_t>(2 * product.m * product.n) * sizeof(float);
}

bool AreColumnsAligned(const Product& product) {
  for (const auto* layout : {&product.a, &product.b, &product.c, &product.d}) {
    const uint64_t bytes = TypeBytes(layout->type);
    if (static_cast<uint64_t>(layout->ld) * bytes % kAlignedBytes != 0 ||
        static_cast<uint64_t>(layout->stride) * bytes % kAlignedBytes != 0) {
      return false;
    }
  }
  return true;
}

bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kAlignedBytes == 0;
}

std::optional<Algorithm> Find(const cublasLtMatmulAlgo_t* algo) {
  if (algo->data[0] != kMark || algo->data[1] < 1 || algo->data[1] > 3) {
    return std::nullopt;
  }
  return static_cast<Algorithm>(algo->data[1]);
}

// Returns true if `algorithm` can compute the product at all.
bool Suits(Algorithm algorithm, const Product& product) {
  switch (algorithm) {
    case Algorithm::kAligned:
      return AreColumnsAligned(product);
    case Algorithm::kSplit:
      return product.k >= 2;
    case Algorithm::kPlain:
      return true;
  }
  return false;
}

cublasStatus_t MakeProduct(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
                           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                           cublasLtMatrixLayout_t d, Product* product) {
  const auto* const desc = Open<LtMatmulDesc>(op);
  const LtMatrixLayout* layouts[] = {
      Open<LtMatrixLayout>(a), Open<LtMatrixLayout>(b), Open<LtMatrixLayout>(c),
      Open<LtMatrixLayout>(d)};
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (const auto* layout : layouts) {
    if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  }
  return MakeProduct(*desc, *layouts[0], *layouts[1], *layouts[2], *layouts[3],
                     product);
}

// A GPU would read or write foreign memory.
void RequireDeviceMemory(const char* what, const void* data, int64_t count,
                         uint32_t type) {
  const size_t bytes = static_cast<size_t>(count) * TypeBytes(type);
  const MemoryRange range = Runtime::Get().Find(data, bytes);
  if (range.kind != MemoryKind::kPageable && range.is_whole) return;
  std::fprintf(stderr,
               "CUDA emulator: cublasLtMatmul: the %zu bytes of %s at %p are "
               "not all in one allocation of the device's\n",
               bytes, what, data);
  std::abort();
}

int64_t ElementCount(const LtMatrixLayout& layout) {
  return (layout.batch - 1) * layout.stride +
         static_cast<int64_t>(layout.columns - 1) * layout.ld +
         static_cast<int64_t>(layout.rows);
}

void RequireDeviceMemory(const Product& product, const Operands& operands,
                         bool reads_c) {
  const LtMatmulDesc& op = product.op;
  const uint32_t type = product.d.type;
  const int64_t batch = product.d.batch;
  RequireDeviceMemory("A", operands.a, ElementCount(product.a), product.a.type);
  RequireDeviceMemory("B", operands.b, ElementCount(product.b), product.b.type);
  RequireDeviceMemory("D", operands.d, ElementCount(product.d), type);
  if (reads_c) {
    RequireDeviceMemory("C", operands.c, ElementCount(product.c), type);
  }
  if (HasBias(op.epilogue)) {
    RequireDeviceMemory("bias", op.bias,
                        (batch - 1) * op.bias_stride + BiasCount(product),
                        type);
  }
  if (HasAux(op.epilogue)) {
    RequireDeviceMemory(
        "aux", op.aux,
        (batch - 1) * op.aux_stride + (product.n - 1) * op.aux_ld + product.m,
        type);
  }
}

bool ArePointersValid(const Product& product, const Operands& operands,
                      bool reads_c) {
  return operands.a != nullptr && operands.b != nullptr &&
         operands.d != nullptr && (!reads_c || operands.c != nullptr) &&
         (!HasBias(product.op.epilogue) || product.op.bias != nullptr) &&
         (!HasAux(product.op.epilogue) || product.op.aux != nullptr) &&
         // In place, C is D.
         (operands.c != operands.d || (product.c.ld == product.d.ld &&
                                       product.c.stride == product.d.stride));
}

bool AreOperandsAligned(const Product& product, const Operands& operands) {
  return IsAligned(operands.a) && IsAligned(operands.b) &&
         IsAligned(operands.c) && IsAligned(operands.d) &&
         IsAligned(product.op.bias) && IsAligned(product.op.aux);
}

// Returns the algorithm that the library would choose by itself.
Algorithm DefaultAlgorithm(const Product& product, const Operands& operands) {
  return Suits(Algorithm::kAligned, product) &&
                 AreOperandsAligned(product, operands)
             ? Algorithm::kAligned
             : Algorithm::kPlain;
}

cublasStatus_t Queue(const Product& product, Operands operands,
                     cudaStream_t stream) {
  const bool by_host = product.op.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  const float alpha = by_host ? *operands.alpha : 0.0f;
  const float beta = by_host ? *operands.beta : 0.0f;
  const cudaError_t error = EnqueueKernel(stream, [=]() mutable {
    if (by_host) {
      operands.alpha = &alpha;
      operands.beta = &beta;
    }
    RunNoted(
        ActivityKind::kKernel,
        [] { return Activity{.name = "cublasLt: an emulated gemm"}; },
        [&] { Multiply(product, operands); });
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t CheckAndQueue(const Product& product, Operands operands,
                             const cublasLtMatmulAlgo_t* algo, void* workspace,
                             size_t workspace_bytes, cudaStream_t stream) {
  if (operands.alpha == nullptr || operands.beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool reads_c = product.op.pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
                       *operands.beta != 0.0f;
  if (!ArePointersValid(product, operands, reads_c)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::optional<Algorithm> algorithm =
      algo == nullptr ? DefaultAlgorithm(product, operands) : Find(algo);
  if (!algorithm.has_value() || !Suits(*algorithm, product)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (*algorithm == Algorithm::kAligned &&
      !AreOperandsAligned(product, operands)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (*algorithm == Algorithm::kSplit) {
    const uint64_t needed = WorkspaceBytes(*algorithm, product);
    if (workspace == nullptr || !IsAligned(workspace) ||
        workspace_bytes < needed) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    operands.split_sums = static_cast<float*>(workspace);
    RequireDeviceMemory("workspace", workspace,
                        static_cast<int64_t>(workspace_bytes / sizeof(float)),
                        CUDA_R_32F);
  }
  RequireDeviceMemory(product, operands, reads_c);
  return Queue(product, operands, stream);
}

void Describe(Algorithm algorithm, const Product& product,
              cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = WorkspaceBytes(algorithm, product);
  result->wavesCount = 1.0f;
  result->state = CUBLAS_STATUS_SUCCESS;
}

bool IsAllowed(Algorithm algorithm, const Product& product,
               const LtPreference& preference) {
  if (!Suits(algorithm, product)) return false;
  if (algorithm == Algorithm::kAligned) {
    for (const uint32_t bytes : preference.alignment) {
      if (bytes < kAlignedBytes) return false;
    }
    return IsAligned(product.op.bias) && IsAligned(product.op.aux);
  }
  return WorkspaceBytes(algorithm, product) <= preference.workspace_bytes &&
         (algorithm != Algorithm::kSplit || preference.reduction_mask != 0);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (StandingError() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new uint64_t(kMark));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete reinterpret_cast<uint64_t*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t opaque,
    int requested_count, cublasLtMatmulHeuristicResult_t results[],
    int* count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const LtPreference* const preference = Open<LtPreference>(opaque);
  if (preference == nullptr || requested_count <= 0 || results == nullptr ||
      count == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *count = 0;
  if (preference->search_mode != CUBLASLT_SEARCH_BEST_FIT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Product product;
  const cublasStatus_t status = MakeProduct(op, a, b, c, d, &product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  for (const Algorithm algorithm :
       {Algorithm::kAligned, Algorithm::kSplit, Algorithm::kPlain}) {
    if (*count == requested_count) break;
    if (!IsAllowed(algorithm, product, *preference)) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo.data[0] = kMark;
    result.algo.data[1] = static_cast<uint64_t>(algorithm);
    Describe(algorithm, product, &result);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
    cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algo == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Product product;
  const cublasStatus_t status = MakeProduct(op, a, b, c, d, &product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const std::optional<Algorithm> algorithm = Find(algo);
  if (!algorithm.has_value()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!Suits(*algorithm, product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  Describe(*algorithm, product, result);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
                              const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout,
                              void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  Product product;
  const cublasStatus_t status =
      MakeProduct(op, a_layout, b_layout, c_layout, d_layout, &product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return CheckAndQueue(product,
                       {.a = a,
                        .b = b,
                        .c = c,
                        .d = d,
                        .alpha = static_cast<const float*>(alpha),
                        .beta = static_cast<const float*>(beta)},
                       algo, workspace, workspace_bytes, stream);
}

}  // extern "C"
}  // namespace ringmaster::cuda_emulator
