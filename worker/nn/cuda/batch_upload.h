// BatchUpload brings batches from the host to a GPU: through pinned memory, on
// a stream of its own, two under way at once, so that the next batch travels
// while the one before is computed on. On the GPU each is copied to one place,
// so that a graph that was captured with one batch computes on any other of its
// size.
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
#include "worker/nn/cuda/softmax_cross_entropy.h"

namespace ringmaster::cuda {

// The values of a pass besides its batch; see TrainOptions.
struct PassValues {
  uint64_t dropout_key = 0;
  DeviceLossTerms scale = {};
};

// A batch in device memory; see Batch. Arrays that its shape does not have are
// null.
struct DeviceBatch {
  int64_t size = 0;
  const int32_t* inputs = nullptr;      // [size, tokens]
  const uint8_t* pixels = nullptr;      // [size, pixels]
  const int32_t* targets = nullptr;     // [size, targets]
  const int64_t* sample_ids = nullptr;  // [size]
  // Of a training pass; see TrainOptions.
  const DeviceLossTerms* scale = nullptr;
  const uint64_t* dropout_key = nullptr;
};

class BatchUpload {
 public:
  // For batches of `shape`, of up to `capacity` samples.
  //   RESOURCE_EXHAUSTED  no memory on the device or to be pinned
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BatchUpload>> Create(
      CudaDevice& device, CudaStream& compute, const SampleShape& shape,
      int64_t capacity);

  // Copies `batch` to the place of the one before, behind what is queued on the
  // compute stream so far; `batch` may be changed as soon as this returns.
  // Batches of equal size have equal addresses. Errors are noted in the compute
  // stream. Requires the shape, and at most the capacity.
  DeviceBatch Upload(const Batch& batch, const PassValues& values = {});

 private:
  struct Slot {
    Allocation pinned;
    Allocation device;
    std::unique_ptr<CudaEvent> is_here;   // on the device
    std::unique_ptr<CudaEvent> is_taken;  // from there to placed_
  };

  explicit BatchUpload(CudaStream& compute) : compute_(compute) {}
  // Appends an array to the slot, at `offset`, which moves on. Returns the
  // array's later address on the device.
  template <typename U>
  const U* Append(Slot& slot, int64_t& offset, absl::Span<const U> from) const;

  CudaStream& compute_;
  std::unique_ptr<CudaStream> copies_;
  std::array<Slot, 2> slots_;
  size_t next_ = 0;
  Allocation placed_;  // on the device: what is computed on
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_BATCH_UPLOAD_H_
