// DirectNccl is a rank's all-reduce by NCCL as nccl-tests call it: a blocking
// communicator, a stream, one ncclAllReduce after another, one wait at the end.
// Our communicator is measured against it.
//
// Thread-safety: thread-compatible; one thread for each rank.
#ifndef RINGMASTER_TESTS_GPU_ALL_REDUCE_DIRECT_NCCL_H_
#define RINGMASTER_TESTS_GPU_ALL_REDUCE_DIRECT_NCCL_H_

#include <nccl.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/nccl_library.h"

namespace ringmaster {

class DirectNccl {
 public:
  // All ranks call it at once, each on its own device. `arena`, of that many
  // bytes of device memory, is registered with NCCL, as ours is, and outlives
  // this.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<DirectNccl>> Create(
      const NcclLibrary& library, const ncclUniqueId& id, int rank,
      int world_size, void* arena, int64_t arena_bytes);
  DirectNccl(const DirectNccl&) = delete;
  // All ranks at once.
  ~DirectNccl();

  // Sums `count` floats at `values` in place, `times` times; waits for the end.
  [[nodiscard]] absl::Status AllReduce(float* values, int64_t count, int times);

 private:
  explicit DirectNccl(const NcclLibrary& library) : library_(library) {}

  const NcclLibrary library_;
  std::unique_ptr<CudaStream> stream_;
  ncclComm_t comm_ = nullptr;
  void* registration_ = nullptr;
};

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_ALL_REDUCE_DIRECT_NCCL_H_
