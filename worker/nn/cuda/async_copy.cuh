// Copies from device memory to shared memory for which a thread does not wait,
// and which take none of its registers: cp.async ("PTX ISA", NVIDIA, of compute
// capability 8.0 on). Elsewhere they are plain copies.
//
// For .cu files alone.
// Example:
//   CopyAsync(&ring[stage][threadIdx.x], from);
//   CommitCopies();
//   ...
//   AwaitCopies<1>();  // all but those committed last are there
#ifndef RINGMASTER_WORKER_NN_CUDA_ASYNC_COPY_CUH_
#define RINGMASTER_WORKER_NN_CUDA_ASYNC_COPY_CUH_

#include "worker/nn/cuda/kernel_parts.cuh"

#if defined(__CUDACC__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define RINGMASTER_HAS_ASYNC_COPY
#endif

namespace ringmaster::cuda {

// Begins a copy of a pack of 16 bytes; both addresses are multiples of 16.
template <int kWidth, typename T>
__device__ inline void CopyAsync(const T* from, T* shared) {
  static_assert(kWidth * sizeof(T) == 16, "the largest copy of a thread");
#ifdef RINGMASTER_HAS_ASYNC_COPY
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(from)
               : "memory");
#else
  StorePack(LoadPack<kWidth>(from), shared);
#endif
}

// Makes one group of the copies that the thread has begun since the last.
__device__ inline void CommitCopies() {
#ifdef RINGMASTER_HAS_ASYNC_COPY
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for the thread's groups except the kLater last. It sees what it has
// copied itself; others do after a barrier.
template <int kLater>
__device__ inline void AwaitCopies() {
#ifdef RINGMASTER_HAS_ASYNC_COPY
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
#endif
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ASYNC_COPY_CUH_
