// CudaServerCopies copies gradients out and parameters in, each way on a stream
// of its own, so that both run beside passes and beside each other.
//
// Parameters arrive in an arena of their own, since passes may still use those
// before; taking them is one copy on the device.
// Thread-safety: as ServerCopies.
// Ownership: all that it is created with must outlive it.
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_CUDA_SERVER_COPIES_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_CUDA_SERVER_COPIES_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/arena.h"
#include "common/plan/plan.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

class CudaServerCopies final : public ServerCopies {
 public:
  // `gradients` and `parameters` are the device's, in the layout of `plan`, and
  // used on `compute`.
  //   RESOURCE_EXHAUSTED  the device's memory is too small
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaServerCopies>> Create(
      CudaDevice& device, CudaStream& compute, const Plan& plan,
      const Arena& gradients, Arena& parameters);
  ~CudaServerCopies() override;

  absl::Status StartGradients(int bucket, absl::Span<float> host) override;
  absl::StatusOr<bool> HasGradients(int bucket) override;
  void StartParameters(int bucket, absl::Span<const float> host) override;
  absl::Status TakeParameters() override;
  void AwaitParameters() override;

 private:
  // The events of one bucket's gradients.
  struct Marks {
    std::unique_ptr<CudaEvent> is_final;
    std::unique_ptr<CudaEvent> is_on_host;
  };

  CudaServerCopies(CudaDevice& device, CudaStream& compute, const Plan& plan,
                   const Arena& gradients, Arena& parameters)
      : device_(device),
        compute_(compute),
        plan_(plan),
        gradients_(gradients),
        parameters_(parameters) {}
  [[nodiscard]] absl::Status Open();
  [[nodiscard]] ElemRange RangeOf(int bucket) const {
    return plan_.buckets()[static_cast<size_t>(bucket)].range;
  }

  CudaDevice& device_;
  CudaStream& compute_;
  const Plan& plan_;
  const Arena& gradients_;
  Arena& parameters_;
  std::vector<Marks> marks_;  // by bucket
  std::unique_ptr<Arena> next_parameters_;
  std::unique_ptr<CudaStream> out_;
  std::unique_ptr<CudaStream> in_;
  std::unique_ptr<CudaEvent> are_in_;  // all parameters
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_CUDA_SERVER_COPIES_H_
