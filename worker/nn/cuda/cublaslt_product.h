// CublasLtProduct is one product of matrices, as cuBLASLt wants it described.
//
// cuBLASLt's matrices are column-major, ours row-major: so it is asked for the
// transposed product, c^T = op(b)^T * op(a)^T, whose operands lie in memory
// just as ours do. Its rows are our columns: its bias is one element for each
// column.
// Thread-safety: thread-compatible.
// Ownership: `library` must outlive it.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUBLASLT_PRODUCT_H_
#define RINGMASTER_WORKER_NN_CUDA_CUBLASLT_PRODUCT_H_

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/cuda/cublaslt_library.h"
#include "worker/nn/cuda/matmul_plans.h"
#include "worker/nn/gemm.h"

namespace ringmaster::cuda {

// The operation on each element of a product before it is written.
enum class Epilogue {
  kNone,
  kBias,          // + bias
  kGelu,          // GELU; its argument is written to aux
  kGeluBias,      // + bias, then the same
  kGeluBackward,  // * GELU'(aux)
  kSumsOfA,       // none, but bias = the sums of op(a)'s rows
  kSumsOfB,       // none, but bias = the sums of op(b)'s columns
};

// The properties that products of one algorithm share.
struct ProductKey {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  // Elements from one row in memory to the next, of each matrix.
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;  // aux has it, too
  cudaDataType_t input = CUDA_R_32F;
  cudaDataType_t output = CUDA_R_32F;
  bool use_tf32 = false;  // for inputs of float
  Epilogue epilogue = Epilogue::kNone;
  int alignment_bytes = 16;  // that the addresses of all operands have

  auto operator<=>(const ProductKey&) const = default;
  // On one line: "nt 1024x768x3072 strides 3072 3072 768 bf16>f32
  // bias align16".
  [[nodiscard]] std::string Name() const;
};

struct ProductOperands {
  const void* a;
  const void* b;
  void* c;
  void* bias;
  void* aux;
  bool add;  // to c
};

class CublasLtProduct {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CublasLtProduct>> Create(
      const CublasLtLibrary& library, cublasLtHandle_t handle,
      const ProductKey& key);
  CublasLtProduct(const CublasLtProduct&) = delete;
  ~CublasLtProduct();

  // Returns the algorithms that cuBLASLt proposes, the most promising first;
  // none if it cannot compute such a product. Leaves out algorithms that want
  // more than `workspace_bytes` of scratch.
  [[nodiscard]] absl::StatusOr<std::vector<MatmulAlgorithm>> Propose(
      int64_t workspace_bytes, int most);
  // Returns true if the algorithm, from another process, computes this product.
  [[nodiscard]] bool CanUse(const MatmulAlgorithm& algorithm,
                            int64_t workspace_bytes);
  // Returns the algorithm of another product with the scratch that this product
  // needs for it; nothing if this one cannot be computed so, or needs more than
  // `workspace_bytes`.
  [[nodiscard]] std::optional<MatmulAlgorithm> Fit(
      const MatmulAlgorithm& algorithm, int64_t workspace_bytes);
  // Queues the product. `workspace` has as much as the algorithm wants.
  [[nodiscard]] absl::Status Run(const MatmulAlgorithm& algorithm,
                                 const ProductOperands& operands,
                                 void* workspace, cudaStream_t stream);

 private:
  CublasLtProduct(const CublasLtLibrary& library, cublasLtHandle_t handle,
                  const ProductKey& key)
      : library_(library), handle_(handle), key_(key) {}
  [[nodiscard]] absl::Status Describe();
  // Sets the attribute to the bytes of `value`.
  template <typename Value>
  [[nodiscard]] absl::Status Set(cublasLtMatmulDescAttributes_t attribute,
                                 Value value);
  [[nodiscard]] absl::Status SetEpilogue();
  // Sets the addresses that the epilogue reads and writes.
  [[nodiscard]] absl::Status SetAddresses(const void* bias, const void* aux);
  // Sets stand-ins with the key's alignment, which is all that the choice of an
  // algorithm depends on.
  [[nodiscard]] absl::Status SetAlignment();

  const CublasLtLibrary& library_;
  const cublasLtHandle_t handle_;
  const ProductKey key_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  // The layouts of cuBLASLt's first and second operand, our b and a, and of c.
  cublasLtMatrixLayout_t first_ = nullptr;
  cublasLtMatrixLayout_t second_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUBLASLT_PRODUCT_H_
