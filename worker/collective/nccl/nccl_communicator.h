// NcclCommunicator is the Communicator of ranks that compute on GPUs: buffers
// in device memory (MemoryKind::kCuda) are reduced by NCCL, and buffers in host
// memory still go through the generation's host communicator, which it owns.
// See communicator.h for the contract; this adds:
//
// Sequence: both kinds are numbered together, in the order of Start. Each kind
// runs in that order; the two run beside each other, so a later ticket of one
// may complete before an earlier one of the other. progress() counts both.
// Failure: a failure of one kind fails the other, with the same status. NCCL
// names no rank, so blamed_rank is known only where the host mesh saw it. Over
// sockets NCCL notices a peer that died; over NVLink it does not, and only a
// deadline or Abort ends the wait.
// After a failure the buffer of a collective on the device may be written to
// until the destructor returns, which takes milliseconds, and at most a few
// seconds. If NCCL's kernels have not stopped by then (NVIDIA/nccl#1777),
// abort_hung() is true, the destructor calls `on_abort_hung` and leaves NCCL
// alone: device memory and the GPU are then of no use to this process, which
// has to end so that the supervisor starts another (exit code 138,
// ExitCode::kRetryElsewhere, is for that). The same holds if NCCL has not freed
// an earlier generation's communicators in that time; Create reports it the
// same way.
// progress() says that a rank whose device is in a collective waits for the
// rank before it in the ring, since NCCL does not say for whom it waits. These
// waits, followed from rank to rank, lead to the one that is not there.
// Figures: NCCL tells neither what it moved nor whom it waited for. For NCCL,
// counters() has the theoretical bytes of a ring (nccl_request.h); WaitedFor,
// LastNonFinite and TransportTo cover the host mesh alone. AllReduceTime is the
// device's, measured by events, and includes the wait for other ranks.
// Reductions are NCCL's: max and min of a NaN and a number may be either.
//
// A generation gets a fresh NCCL communicator. ncclCommShrink would save only
// the newcomers' part and needs a certain version and a parent that was not
// aborted; and the unique id travels over the new generation's mesh in one
// broadcast anyway.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl/nccl_engine.h"
#include "worker/collective/nccl/nccl_settings.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster {

class NcclCommunicator final : public Communicator {
 public:
  struct Options {
    const CudaDevice* device = nullptr;  // outlives the communicator
    // The stream that computes the buffers: a collective waits for what is in
    // it at Start. Outlives the communicator.
    CudaStream* compute = nullptr;
    int64_t generation = 0;  // for messages
    // The process' settings: see ApplyNcclSettings.
    NcclSettings settings = {};
    // Device memory that most buffers are in, for NCCL to use in place; may be
    // empty, else lives as long as the communicator, and then until what
    // `retired` took over is freed.
    BufferView arena = {};
    Clock* clock = nullptr;  // outlives the communicator
    Trace* trace = nullptr;  // may be null; else outlives the communicator
    // The time that the destructor waits for NCCL's kernels to stop.
    absl::Duration abort_timeout = absl::Seconds(5);
    // Takes over what NCCL has yet to free when they have stopped; null: the
    // destructor waits for that too.
    NcclRetired* retired = nullptr;
    // See above. May be empty.
    std::function<void(const absl::Status&)> on_abort_hung = {};
  };

  // All ranks of `host` call it. Makes the device current for this thread.
  // `cancel` (may be null) ends the call within milliseconds, from another
  // thread.
  //   FAILED_PRECONDITION  the ranks cannot be together, or NCCL says so
  //   INVALID_ARGUMENT     as CheckNcclRanks
  //   DEADLINE_EXCEEDED    not all ranks were there in time
  //   UNAVAILABLE          a peer or the network
  //   ABORTED              cancelled
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(
      const Options& options, std::unique_ptr<Communicator> host,
      MonotonicTime deadline, const CancelToken* cancel);
  ~NcclCommunicator() override;

  // Returns a Communicator, for buffers on the device alone, of the ranks that
  // pass the same `color`, ordered by `key`; null for NcclComms::kNoColor. All
  // ranks call it. Its collectives share this one's stream, so their order must
  // be the same on all ranks that share any; a failure of one fails all. It
  // must go before this one, and is used by the same thread.
  //   FAILED_PRECONDITION  a world of one
  //   else as Create
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> Split(
      int color, int key, MonotonicTime deadline);

  [[nodiscard]] int rank() const override { return host_->rank(); }
  [[nodiscard]] int world_size() const override { return host_->world_size(); }
  // Beyond the contract: RESOURCE_EXHAUSTED when NcclEngine::kMaxQueued are
  // queued; an error of the compute stream. A collective on the device waits
  // for what is ready in the compute stream then, see CudaStream::MarkReady.
  [[nodiscard]] absl::StatusOr<Ticket> Start(
      const CollectiveRequest& request) override;
  [[nodiscard]] absl::Status Wait(Ticket ticket,
                                  MonotonicTime deadline) override;
  // Work queued in `stream` from here on runs after the collective, whose
  // buffer is on the device; the host does not wait for it. Only Wait tells
  // whether it completed: queue work that must not see an undefined buffer
  // after Wait. Statuses as Wait.
  [[nodiscard]] absl::Status WaitOnStream(Ticket ticket, CudaStream& stream,
                                          MonotonicTime deadline);
  [[nodiscard]] absl::Status Run(const CollectiveRequest& request,
                                 MonotonicTime deadline) override;
  void Abort(std::string_view why) override;

  [[nodiscard]] Algorithm AlgorithmFor(
      const CollectiveRequest& request) const override;
  [[nodiscard]] CollectiveProgress progress() const override;
  [[nodiscard]] WireCounters counters() const override;
  [[nodiscard]] absl::Duration WaitedFor(int rank) const override {
    return host_->WaitedFor(rank);
  }
  [[nodiscard]] absl::Duration AllReduceTime() const override;
  [[nodiscard]] Transport TransportTo(int rank) const override {
    return host_->TransportTo(rank);
  }
  // Returns true if an abort has taken longer than `abort_timeout`. From any
  // thread.
  [[nodiscard]] bool abort_hung() const { return engine_->abort_hung(); }

 private:
  // A ticket's place among the collectives of its kind.
  struct Place {
    MemoryKind memory = MemoryKind::kHost;
    int64_t sequence = 0;
  };

  NcclCommunicator(const Options& options, std::unique_ptr<Communicator> host)
      : options_(options), host_(std::move(host)) {}
  [[nodiscard]] absl::Status Connect(MonotonicTime deadline);
  [[nodiscard]] Ticket Admit(Place place);
  [[nodiscard]] bool IsComplete(const Place& place) const;
  // Returns the place of a ticket that may not be complete; null if it is.
  [[nodiscard]] absl::StatusOr<const Place*> Find(Ticket ticket) const;
  // `status` came from the host communicator.
  [[nodiscard]] absl::Status FromHost(const absl::Status& status);

  const Options options_;
  const std::unique_ptr<Communicator> host_;
  std::unique_ptr<NcclEngine> engine_;
  // The last tickets, up to `started_`; all before them are complete.
  std::deque<Place> places_;
  int64_t started_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
