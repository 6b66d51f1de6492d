// CudaArenas are one job's arenas in a GPU's memory: parameters, gradients and
// moments, all of float.
//
// Thread-safety: thread-compatible; on the training thread.
// Ownership: device and stream must outlive it.
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ARENAS_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ARENAS_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/arena.h"
#include "common/plan/plan.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/train/cuda/cuda_server_copies.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

class CudaArenas final : public AcceleratorArenas {
 public:
  // `before_free` is called before the memory is freed: all others that use it
  // must be done with it when it returns. Errors as Accelerator::CreateArenas.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaArenas>> Create(
      CudaDevice& device, CudaStream& stream, const Plan& plan,
      const Accelerator::ArenaOptions& options,
      std::function<void()> before_free = [] {});
  ~CudaArenas() override { before_free_(); }

  absl::Span<const float> parameters() const override {
    return parameters_->Elems<float>();
  }
  absl::Span<float> gradients() const override {
    return gradients_->Elems<float>();
  }
  ArenaSpans<float> state() override;
  ServerCopies* server_copies() override { return server_copies_.get(); }
  void ClearGradients() override;
  absl::Status CopyFromHost(const ArenaSpans<const float>& host) override;
  absl::Status CopyToHost(const ArenaSpans<float>& host) override;
  absl::StatusOr<double> GradientNormSquared(int64_t statistics) override;
  absl::Status Apply(const OptimizerConfig& config, const Update& update,
                     std::span<const UpdateStretch> stretches) override;
  absl::StatusOr<absl::Duration> TakeUpdateTime() override;

 private:
  CudaArenas(CudaDevice& device, CudaStream& stream,
             std::function<void()> before_free)
      : device_(device),
        stream_(stream),
        before_free_(std::move(before_free)) {}
  [[nodiscard]] absl::Status Allocate(int64_t num_elems, int moments);

  CudaDevice& device_;
  CudaStream& stream_;
  const std::function<void()> before_free_;
  std::optional<Arena> parameters_;
  std::optional<Arena> gradients_;
  std::optional<Arena> first_moment_;   // none: the optimizer has no such
  std::optional<Arena> second_moment_;  // likewise
  Allocation norm_scratch_;
  Allocation host_norm_;  // pinned: one double
  // Around the update.
  std::unique_ptr<CudaEvent> update_begins_;
  std::unique_ptr<CudaEvent> update_ends_;
  bool is_update_told_ = true;
  std::unique_ptr<CudaServerCopies> server_copies_;  // null: no servers
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ARENAS_H_
