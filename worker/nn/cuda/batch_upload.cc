#include "worker/nn/cuda/batch_upload.h"

#include <cstring>

#include "common/status/status_macros.h"

namespace ringmaster::cuda {
namespace {

int64_t Aligned(int64_t bytes) {
  return (bytes + kAllocationAlignment - 1) / kAllocationAlignment *
         kAllocationAlignment;
}

int64_t BytesOf(const SampleShape& shape, int64_t samples) {
  return Aligned(samples * shape.tokens * int64_t{sizeof(int32_t)}) +
         Aligned(samples * shape.pixels) +
         Aligned(samples * shape.targets * int64_t{sizeof(int32_t)}) +
         Aligned(samples * int64_t{sizeof(int64_t)}) +
         Aligned(sizeof(PassValues));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchUpload>> BatchUpload::Create(
    CudaDevice& device, CudaStream& compute, const SampleShape& shape,
    int64_t capacity) {
  std::unique_ptr<BatchUpload> upload(new BatchUpload(compute));
  ASSIGN_OR_RETURN(upload->copies_, CudaStream::Create("copy"));
  const int64_t bytes = BytesOf(shape, capacity);
  for (Slot& slot : upload->slots_) {
    ASSIGN_OR_RETURN(slot.pinned, device.pinned_allocator().Allocate(bytes));
    ASSIGN_OR_RETURN(slot.device, device.allocator().Allocate(bytes));
    ASSIGN_OR_RETURN(slot.is_here, CudaEvent::Create());
    ASSIGN_OR_RETURN(slot.is_taken, CudaEvent::Create());
  }
  ASSIGN_OR_RETURN(upload->placed_, device.allocator().Allocate(bytes));
  return upload;
}

template <typename U>
const U* BatchUpload::Append(Slot& slot, int64_t& offset,
                             absl::Span<const U> from) const {
  if (from.empty()) return nullptr;
  const auto bytes = static_cast<int64_t>(from.size() * sizeof(U));
  std::memcpy(static_cast<uint8_t*>(slot.pinned.data()) + offset, from.data(),
              static_cast<size_t>(bytes));
  const U* const placed = reinterpret_cast<const U*>(
      static_cast<const uint8_t*>(placed_.data()) + offset);
  offset += Aligned(bytes);
  return placed;
}

DeviceBatch BatchUpload::Upload(const Batch& batch, const PassValues& values) {
  Slot& slot = slots_[next_];
  // Neither the pinned memory nor the device's is needed any more.
  compute_.Note(slot.is_taken->Wait());

  DeviceBatch placed;
  placed.size = batch.size();
  int64_t offset = 0;
  placed.inputs = Append(slot, offset, batch.inputs());
  placed.pixels = Append(slot, offset, batch.pixels());
  placed.targets = Append(slot, offset, batch.targets());
  placed.sample_ids = Append(slot, offset, batch.sample_ids());
  const PassValues* const on_device =
      Append(slot, offset, absl::MakeConstSpan(&values, 1));
  placed.scale = &on_device->scale;
  placed.dropout_key = &on_device->dropout_key;
  copies_->CopyToDevice(slot.device.data(), slot.pinned.data(), offset);
  copies_->Record(*slot.is_here);
  compute_.Note(copies_->status());
  compute_.WaitFor(*slot.is_here);
  compute_.CopyOnDevice(placed_.data(), slot.device.data(), offset);
  compute_.Record(*slot.is_taken);
  next_ = 1 - next_;
  return placed;
}

}  // namespace ringmaster::cuda
