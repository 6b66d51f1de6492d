// BatchUpload brings batches from the host to a GPU: through pinned memory, on a
// stream of its own, two under way at once, so that the next batch travels while
// the one before is computed on.
//
// Thread-safety: thread-compatible.
// Ownership: device and compute stream must outlive it.
#ifndef RINGMASTER_WORKER_NN_CUDA_BATCH_UPLOAD_H_
#define RINGMASTER_WORKER_NN_CUDA_BATCH_UPLOAD_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/allocator.h"
#include "worker/data/batch.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// A batch in device memory; see Batch. What its shape does not have is null.
struct DeviceBatch {
  int64_t size = 0;
  const int32_t* inputs = nullptr;      // [size, tokens]
  const uint8_t* pixels = nullptr;      // [size, pixels]
  const int32_t* targets = nullptr;     // [size, targets]
  const int64_t* sample_ids = nullptr;  // [size]
};

class BatchUpload {
 public:
  // For batches of `shape`, of up to `capacity` samples.
  //   RESOURCE_EXHAUSTED  no memory on the device or to be pinned
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BatchUpload>> Create(
      CudaDevice& device, CudaStream& compute, const SampleShape& shape,
      int64_t capacity);

  // Copies `batch`, which may be changed as soon as this returns, and lets the
  // compute stream wait for it. Valid until the second Upload from here on, for
  // what was queued on the compute stream by then. Errors are noted in the
  // compute stream. Requires the shape, and at most the capacity.
  DeviceBatch Upload(const Batch& batch);

 private:
  struct Slot {
    Allocation pinned;
    Allocation device;
    std::unique_ptr<CudaEvent> is_copied;
    std::unique_ptr<CudaEvent> is_used;  // by the compute stream
  };

  explicit BatchUpload(CudaStream& compute) : compute_(compute) {}
  // Appends an array to the slot, at `offset`, which moves on; where it will be
  // on the device.
  template <typename U>
  static const U* Append(Slot& slot, int64_t& offset, absl::Span<const U> from);

  CudaStream& compute_;
  std::unique_ptr<CudaStream> copies_;
  std::array<Slot, 2> slots_;
  size_t next_ = 0;
  bool is_in_use_ = false;  // the compute stream uses what came last
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_BATCH_UPLOAD_H_
