// HostCommunicator runs collectives on host memory over channels to the peers.
//
// Its own thread runs what Start queues, so that communication overlaps the
// caller's computing; Run uses the calling thread when nothing is queued, which
// saves two thread switches. See communicator.h for the contract.
#ifndef RINGMASTER_WORKER_COLLECTIVE_HOST_COMMUNICATOR_H_
#define RINGMASTER_WORKER_COLLECTIVE_HOST_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/sync/mutex.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "worker/collective/communicator.h"
#include "worker/collective/cost_model.h"
#include "worker/collective/engine.h"

namespace ringmaster {

class HostCommunicator final : public Communicator {
 public:
  // Collectives that may be started and not yet run.
  static constexpr int kMaxQueued = 4096;

  struct Options {
    std::string job_id;
    int64_t generation = 0;
    int rank = 0;
    Topology topology = Topology::OneHost(1);
    AlgorithmPolicy policy;
    Clock* clock = nullptr;  // outlives the communicator
    Trace* trace = nullptr;  // may be null; else outlives the communicator
  };

  // `channels` by rank, to all of PeersOf(rank, topology); the others are null.
  HostCommunicator(const Options& options,
                   std::vector<std::unique_ptr<Channel>> channels);
  ~HostCommunicator() override;

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int world_size() const override {
    return options_.topology.world_size();
  }

  // Beyond the contract: RESOURCE_EXHAUSTED when kMaxQueued are queued already.
  [[nodiscard]] absl::StatusOr<Ticket> Start(
      const CollectiveRequest& request) override;
  [[nodiscard]] absl::Status Wait(Ticket ticket,
                                  MonotonicTime deadline) override;
  [[nodiscard]] absl::Status Run(const CollectiveRequest& request,
                                 MonotonicTime deadline) override;
  void Abort(std::string_view why) override;
  [[nodiscard]] Algorithm AlgorithmFor(
      const CollectiveRequest& request) const override {
    return ChooseAlgorithm(request, options_.topology, options_.policy);
  }
  [[nodiscard]] CollectiveProgress progress() const override;
  [[nodiscard]] WireCounters counters() const override;
  [[nodiscard]] absl::Duration WaitedFor(int rank) const override;
  [[nodiscard]] absl::Duration AllReduceTime() const override {
    return absl::Nanoseconds(all_reduce_ns_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] int64_t LastNonFinite(int rank) const override;
  [[nodiscard]] Transport TransportTo(int rank) const override;

 private:
  struct Pending {
    CollectiveRequest request;
    int64_t sequence = 0;
    MonotonicTime ready;
  };

  [[nodiscard]] absl::Status Validate(const CollectiveRequest& request) const;
  // In a world of one the buffer is the result, except for the rounding that
  // the wire of a larger world would cause.
  [[nodiscard]] absl::Status FinishAlone(const CollectiveRequest& request);
  // Takes the next sequence number; checks that nothing failed before.
  [[nodiscard]] absl::StatusOr<Pending> Admit(const CollectiveRequest& request)
      REQUIRES(mutex_);
  void ThreadMain();
  // Runs it on this thread, which has set is_engine_busy_, and records it.
  [[nodiscard]] absl::Status Execute(const Pending& pending,
                                     MonotonicTime deadline);
  [[nodiscard]] TraceSpan SpanOf(const Pending& pending) const;
  [[nodiscard]] absl::Status RunEngine(const Pending& pending,
                                       MonotonicTime deadline);
  // Marks the engine free again and, after a success, the collective complete.
  void Finish(const Pending& pending, const absl::Status& status);
  void Fail(const absl::Status& status);

  const Options options_;
  Clock& clock_;
  CancelToken failure_;  // cancelled by Abort and by the first failure
  const std::unique_ptr<CollectiveEngine> engine_;  // null for a world of one

  std::atomic<int64_t> all_reduce_ns_{0};

  mutable Mutex mutex_;
  CondVar queued_;
  CondVar changed_;  // completion, failure, the engine coming free
  std::deque<Pending> queue_ GUARDED_BY(mutex_);
  bool is_engine_busy_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  int64_t started_ GUARDED_BY(mutex_) = 0;
  int64_t completed_ GUARDED_BY(mutex_) = 0;
  Pending running_ GUARDED_BY(mutex_);  // or the last one that ran

  std::thread thread_;  // last: uses everything above
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_HOST_COMMUNICATOR_H_
