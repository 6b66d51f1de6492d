// LinkAccelerator is another accelerator whose gradients also go over a
// SimulatedLink: what a generation reduces on the device is complete when it is,
// and its transfer has ended.
#ifndef RINGMASTER_TESTS_GPU_OVERLAP_LINK_ACCELERATOR_H_
#define RINGMASTER_TESTS_GPU_OVERLAP_LINK_ACCELERATOR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/gpu/overlap/simulated_link.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

class LinkAccelerator final : public Accelerator {
 public:
  // Both outlive it. `accelerator` is one of CUDA's.
  LinkAccelerator(Accelerator& accelerator, SimulatedLink& link)
      : accelerator_(accelerator), link_(link) {}

  const std::string& name() const override { return accelerator_.name(); }
  absl::Status Enter() override { return accelerator_.Enter(); }
  bool IsLost(const absl::Status& status) const override {
    return accelerator_.IsLost(status);
  }
  double PeakFlops(Precision precision) const override {
    return accelerator_.PeakFlops(precision);
  }
  Allocator& host_allocator() override { return accelerator_.host_allocator(); }
  absl::StatusOr<std::unique_ptr<Model<float>>> CreateModel(
      const ModelConfig& config, Precision precision,
      int64_t max_batch) override {
    return accelerator_.CreateModel(config, precision, max_batch);
  }
  absl::StatusOr<std::unique_ptr<AcceleratorArenas>> CreateArenas(
      const Plan& plan, const ArenaOptions& options) override {
    return accelerator_.CreateArenas(plan, options);
  }
  // Beyond the contract: INTERNAL if `accelerator`'s is not NCCL's.
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      std::unique_ptr<Communicator> host,
      const CommunicatorOptions& options) override;

 private:
  Accelerator& accelerator_;
  SimulatedLink& link_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_OVERLAP_LINK_ACCELERATOR_H_
