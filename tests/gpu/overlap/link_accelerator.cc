#include "tests/gpu/overlap/link_accelerator.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/nccl_communicator.h"

namespace ringmaster {
namespace {

// For the thread that queues collectives; it waits for nothing itself.
constexpr absl::Duration kPatience = absl::Seconds(10);

class LinkCommunicator final : public Communicator {
 public:
  LinkCommunicator(std::unique_ptr<NcclCommunicator> inner, SimulatedLink& link)
      : inner_(std::move(inner)), link_(link) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }

  absl::StatusOr<Ticket> Start(const CollectiveRequest& request) override {
    ASSIGN_OR_RETURN(const Ticket ticket, inner_->Start(request));
    if (request.buffer.memory == MemoryKind::kCuda) {
      RETURN_IF_ERROR(
          link_.Start(request.buffer.count * SizeOf(request.buffer.dtype),
                      [&](CudaStream& stream) {
                        return inner_->WaitOnStream(
                            ticket, stream, Clock::Real().Now() + kPatience);
                      }));
    }
    return ticket;
  }
  absl::Status Wait(Ticket ticket, MonotonicTime deadline) override {
    RETURN_IF_ERROR(inner_->Wait(ticket, deadline));
    // The first wait of a step is for all: nothing is started after it.
    return link_.Await();
  }
  absl::Status Run(const CollectiveRequest& request,
                   MonotonicTime deadline) override {
    return inner_->Run(request, deadline);
  }
  void Abort(std::string_view why) override { inner_->Abort(why); }

  Algorithm AlgorithmFor(const CollectiveRequest& request) const override {
    return inner_->AlgorithmFor(request);
  }
  CollectiveProgress progress() const override { return inner_->progress(); }
  WireCounters counters() const override { return inner_->counters(); }
  absl::Duration WaitedFor(int rank) const override {
    return inner_->WaitedFor(rank);
  }
  absl::Duration AllReduceTime() const override {
    return inner_->AllReduceTime();
  }
  Transport TransportTo(int rank) const override {
    return inner_->TransportTo(rank);
  }

 private:
  const std::unique_ptr<NcclCommunicator> inner_;
  SimulatedLink& link_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> LinkAccelerator::Connect(
    std::unique_ptr<Communicator> host, const CommunicatorOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> made,
                   accelerator_.Connect(std::move(host), options));
  auto* const nccl = dynamic_cast<NcclCommunicator*>(made.get());
  if (nccl == nullptr) {
    return absl::InternalError(
        "the simulated link needs a communicator of NCCL's");
  }
  static_cast<void>(made.release());
  return std::make_unique<LinkCommunicator>(
      std::unique_ptr<NcclCommunicator>(nccl), link_);
}

}  // namespace ringmaster
