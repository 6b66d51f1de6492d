// GemmScratch lends memory for packed or rounded operands, for gemm.cc and
// gemm_packed.cc alone.
//
// Thread-safety: thread-safe; every thread has its own memory.
#ifndef RINGMASTER_WORKER_NN_GEMM_SCRATCH_H_
#define RINGMASTER_WORKER_NN_GEMM_SCRATCH_H_

#include <cstdint>

namespace ringmaster {

// At least `size_bytes` bytes, aligned to a cache line. Valid until this thread asks
// again. Grows to the largest size asked for, and is freed when the thread
// ends.
void* GemmScratch(int64_t size_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GEMM_SCRATCH_H_
