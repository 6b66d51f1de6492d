// The contents of cuBLASLt's opaque descriptors, and access to them.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_DESCRIPTORS_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_DESCRIPTORS_H_

#include <cublasLt.h>

#include <cstdint>

#include "worker/device/cuda/emulator/cublas_lt_product.h"

namespace ringmaster::cuda_emulator {

// Marks what this library has written, in algorithms and descriptors.
inline constexpr uint64_t kMark = 0x52696E674C740000 + CUBLAS_VERSION;

struct LtPreference {
  uint64_t workspace_bytes = 0;
  uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

// A value in an opaque descriptor.
template <typename T>
struct Marked {
  uint64_t mark = kMark;
  T value;
};

// Returns null if `opaque` is null or holds no such value, because it was never
// initialized.
template <typename T, typename Opaque>
T* Open(Opaque* opaque) {
  static_assert(sizeof(Marked<T>) <= sizeof(Opaque));
  if (opaque == nullptr) return nullptr;
  auto* const marked = reinterpret_cast<Marked<T>*>(opaque);
  return marked->mark == kMark ? &marked->value : nullptr;
}

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_CUBLAS_LT_DESCRIPTORS_H_
