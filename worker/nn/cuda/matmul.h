// CudaMatmul multiplies matrices on a GPU, by cuBLASLt.
//
// Matrices are row-major, as in worker/nn/gemm.h. Elements are float,
// __nv_bfloat16 or __half; products are summed up in float. A step after a
// product (a bias, GELU or its gradient, sums for the gradient of a bias) is
// part of it where cuBLASLt can do so and that is faster, and a kernel of its
// own elsewhere.
//
// A product that is met for the first time is computed by each of a few
// algorithms, and the fastest is kept: for the life of this object, so that
// equal calls give equal results, and in MatmulOptions::cache_directory for
// later ones. (Another process may find another algorithm the fastest; it sums
// in another order.) Measuring waits for the device; a later call never does,
// and no call allocates memory, so a product that was met can be captured in a
// CUDA graph. Products that are added to what is there are not measured, since
// each run would be added, nor are those that are met during a capture: they
// take the algorithm that was found for the same product before, or else the
// one that cuBLASLt thinks the fastest. A product is not measured either if it
// differs from a measured one only in m or only in k (of ProductKey), of half
// to twice the size: it takes that one's algorithm. When the ranks of a job
// change, and so their parts of the batch, measuring would otherwise be most of
// the cost of the change.
//
// Guarantees: the same result, to the bit, for each call with the same
// operands.
// Thread-safety: thread-compatible; all calls are queued on one stream, since
// they share scratch.
// Ownership: device and stream must outlive it.
// Example:
//   ASSIGN_OR_RETURN(auto matmul, CudaMatmul::Create(device, stream, {}));
//   matmul->Multiply<float>({Transpose::kNo, Transpose::kYes, {m, n, k}}, x,
//                           weight, {.c = y, .bias = bias});
//   RETURN_IF_ERROR(stream.Synchronize());
#ifndef RINGMASTER_WORKER_NN_CUDA_MATMUL_H_
#define RINGMASTER_WORKER_NN_CUDA_MATMUL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cublaslt_library.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/cublaslt_product.h"
#include "worker/nn/cuda/matmul_plan_file.h"
#include "worker/nn/gemm.h"

namespace ringmaster::cuda {

struct MatmulOptions {
  // Products of floats round their factors to TF32 (10 bits of mantissa), which
  // is about eight times faster where a GPU has it.
  bool use_tf32 = false;
  // Off: the algorithm that cuBLASLt thinks the fastest, unmeasured.
  bool measure = true;
  // Off: what follows a product is always a kernel of its own.
  bool fuse = true;
  // Bytes of scratch. The default is what NVIDIA recommends for Hopper; with
  // less, its fastest algorithms are out.
  int64_t workspace_bytes = int64_t{32} << 20;
  // The directory for measured algorithms, see MatmulPlanFile; if empty, they
  // are forgotten.
  std::string cache_directory = {};
};

// A product [m,k] * [k,n] -> [m,n], and how its matrices lie in memory; a
// transposed operand is stored as [k,m] or [n,k].
struct MatmulShape {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  GemmShape size = {};
  // Elements from one stored row to the next; 0: rows follow one another.
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;
};

// The destination of a product, and the steps on its way there. Fields other
// than `c` are for kSet only. With GELU, c_stride is 0.
template <typename T>
struct MatmulOutput {
  T* c;  // [m,n]
  Write write = Write::kSet;
  // [n], added to each row; null: none.
  const T* bias = nullptr;
  // [m,n] or null: pre = the product and its bias, c = GELU(pre).
  T* pre = nullptr;
  // [m,n] or null: c = the product * GELU'(gelu_input).
  const T* gelu_input = nullptr;
};

// Device memory.
struct MatmulScratch {
  float* data;
  int64_t elems;
};

class CudaMatmul {
 public:
  // Makes the scratch in device memory, and reads the known algorithms of
  // products. For calls on `stream`.
  //   NOT_FOUND, UNIMPLEMENTED  there is no cuBLASLt that this program can use
  //   RESOURCE_EXHAUSTED        there is no memory for the scratch
  //   INTERNAL                  the library does not start
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaMatmul>> Create(
      CudaDevice& device, CudaStream& stream, MatmulOptions options);
  CudaMatmul(const CudaMatmul&) = delete;
  ~CudaMatmul();

  // Queues output.c = or += op(a) * op(b). Dimensions may be 0. Outputs must
  // not overlap inputs. Errors are the stream's; UNIMPLEMENTED names a product
  // that cuBLASLt cannot compute.
  template <typename T>
  void Multiply(const MatmulShape& shape, const T* a, const T* b,
                const MatmulOutput<T>& output);
  // The same with a result in float, for gradients of parameters.
  template <typename T>
  void MultiplyToFloat(const MatmulShape& shape, const T* a, const T* b,
                       Write write, float* c);
  // The same, = only, and at once a_sums = the sums of op(a)'s rows [m], or
  // b_sums = those of op(b)'s columns [n]; the other is null. `apart` queues
  // just this in more than one step; it is called if that is faster, or there
  // is no other way.
  template <typename T>
  void MultiplyWithSums(const MatmulShape& shape, const T* a, const T* b,
                        float* a_sums, float* b_sums, float* c,
                        absl::FunctionRef<void()> apart);

  // The memory that products compute in, for other operators on the same
  // stream: all are queued one after the other, and nothing stays in it.
  [[nodiscard]] MatmulScratch scratch() const {
    return {static_cast<float*>(workspace_.data()),
            workspace_.size_bytes() / static_cast<int64_t>(sizeof(float))};
  }
  [[nodiscard]] const MatmulOptions& options() const { return options_; }

 private:
  // A product that was met: its description, and its algorithm if it can be
  // computed.
  struct Planned {
    std::unique_ptr<CublasLtProduct> product;
    std::optional<MatmulAlgorithm> algorithm;
    // Its algorithm was found by measuring: here, before, or for a product near
    // it.
    bool is_measured = false;
    // Measured by this object, but not yet against kernels apart.
    bool is_fresh = false;
  };

  CudaMatmul(CudaDevice& device, CudaStream& stream, MatmulOptions options,
             CublasLtLibrary library);
  [[nodiscard]] absl::Status Start();
  void FillZero(const ProductKey& key, void* c);
  // The product with its epilogue in one, or `apart`.
  void QueueFused(ProductKey key, const ProductOperands& operands,
                  absl::FunctionRef<void()> apart);
  // Forgets the algorithm if `apart` is faster.
  [[nodiscard]] absl::Status CompareWith(absl::FunctionRef<void()> apart,
                                         const ProductKey& key,
                                         const ProductOperands& operands,
                                         Planned& planned);
  // Queues the product and returns true if cuBLASLt can compute it.
  bool TryQueue(const ProductKey& key, const ProductOperands& operands);
  // The same, where there is no other way.
  void Queue(const ProductKey& key, const ProductOperands& operands);
  [[nodiscard]] absl::StatusOr<Planned*> Plan(const ProductKey& key,
                                              const ProductOperands& operands);
  // Sets planned.algorithm, if there is one.
  [[nodiscard]] absl::Status Choose(const ProductKey& key,
                                    const ProductOperands& operands,
                                    Planned& planned);
  // Sets planned.algorithm to that of a product near `key` that was measured.
  // Returns true if there is one.
  bool TakeNear(const ProductKey& key, Planned& planned) const;
  // Nothing if all of them are refused.
  [[nodiscard]] absl::StatusOr<std::optional<MatmulAlgorithm>> Fastest(
      const ProductOperands& operands, CublasLtProduct& product,
      const std::vector<MatmulAlgorithm>& candidates);
  [[nodiscard]] absl::StatusOr<float> Milliseconds(
      absl::FunctionRef<absl::Status()> run);

  CudaDevice& device_;
  CudaStream& stream_;
  const MatmulOptions options_;
  const CublasLtLibrary library_;
  cublasLtHandle_t handle_ = nullptr;
  Allocation workspace_;
  std::unique_ptr<CudaEvent> begin_;
  std::unique_ptr<CudaEvent> end_;
  MatmulPlanFile plans_;
  std::map<ProductKey, Planned> planned_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_MATMUL_H_
