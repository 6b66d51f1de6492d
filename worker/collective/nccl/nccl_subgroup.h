// NcclSubgroup is the Communicator of some of the ranks of an NcclCommunicator,
// for buffers in device memory alone (NcclCommunicator::Split).
//
// It has no host mesh: there are no barriers, and nobody to wait for or to
// blame. The NcclCommunicator does the counting, for all its groups.
// Thread-safety and failure: as NcclCommunicator, whose engine runs it.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_SUBGROUP_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_SUBGROUP_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl/nccl_engine.h"
#include "worker/collective/nccl/nccl_request.h"
#include "worker/collective/nccl/nccl_settings.h"

namespace ringmaster {

class NcclSubgroup final : public Communicator {
 public:
  // `engine` and `compute` outlive it.
  NcclSubgroup(NcclEngine& engine, const NcclEngine::Membership& membership,
               CudaStream& compute, const NcclSettings& settings)
      : engine_(engine),
        membership_(membership),
        compute_(compute),
        settings_(settings) {}

  [[nodiscard]] int rank() const override { return membership_.of.rank; }
  [[nodiscard]] int world_size() const override {
    return membership_.of.world_size;
  }
  // Beyond the contract: as NcclCommunicator; INVALID_ARGUMENT for host memory.
  [[nodiscard]] absl::StatusOr<Ticket> Start(
      const CollectiveRequest& request) override;
  [[nodiscard]] absl::Status Wait(Ticket ticket,
                                  MonotonicTime deadline) override;
  // Aborts the NcclCommunicator.
  void Abort(std::string_view why) override;

  [[nodiscard]] Algorithm AlgorithmFor(
      const CollectiveRequest& request) const override;
  [[nodiscard]] CollectiveProgress progress() const override { return {}; }
  [[nodiscard]] WireCounters counters() const override { return {}; }
  [[nodiscard]] absl::Duration WaitedFor(int /*rank*/) const override {
    return absl::ZeroDuration();
  }
  [[nodiscard]] absl::Duration AllReduceTime() const override {
    return absl::ZeroDuration();
  }
  [[nodiscard]] Transport TransportTo(int /*rank*/) const override {
    return Transport::kLoopback;
  }

 private:
  NcclEngine& engine_;
  const NcclEngine::Membership membership_;
  CudaStream& compute_;
  const NcclSettings settings_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_SUBGROUP_H_
