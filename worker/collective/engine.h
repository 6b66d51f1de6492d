// CollectiveEngine runs one collective at a time over the channels to a rank's
// peers, on the calling thread, as the collective's schedule says.
//
// All channels move at once and without blocking. The thread sends what it can
// and takes what has come. Only when nothing moves does it wait: it spins for
// some microseconds, then sleeps in poll(2). Used by HostCommunicator only.
// Thread-safety: Run from one thread at a time; the observers from any.
#ifndef RINGMASTER_WORKER_COLLECTIVE_ENGINE_H_
#define RINGMASTER_WORKER_COLLECTIVE_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/channel_wait.h"
#include "worker/collective/communicator.h"
#include "worker/collective/cost_model.h"
#include "worker/collective/plan_cache.h"

namespace ringmaster {

// A rank's identity, and the channels to its peers.
struct EngineMember {
  uint64_t job = 0;  // JobHash
  int64_t generation = 0;
  int rank = 0;
  Topology topology;
  AlgorithmPolicy policy;
  // By rank; null for itself and for those it is not connected with.
  std::vector<std::unique_ptr<Channel>> channels;
};

class CollectiveEngine {
 public:
  // `cancel` and `clock` must outlive the engine.
  CollectiveEngine(EngineMember member, const CancelToken& cancel,
                   Clock& clock);

  // Runs `request`, whose algorithm is usable or kAuto, as the collective
  // number `sequence`. After an error the streams' positions are lost: call
  // Close.
  //   the statuses of Communicator::Wait; with `cancel` cancelled, its status
  [[nodiscard]] absl::Status Run(const CollectiveRequest& request,
                                 int64_t sequence, MonotonicTime deadline);

  // A wait for a peer in the collective that ran last.
  struct PeerWait {
    int rank = -1;  // -1: it waited for nobody
    absl::Duration waited;
    // It was in vain, and the peer had sent something of the collective.
    bool has_peer_entered = false;
  };
  // Returns the longest one of a collective that has completed; of one that has
  // failed, the one that it failed in. From the thread of Run.
  [[nodiscard]] PeerWait LongestWait() const { return longest_; }
  [[nodiscard]] PeerWait WaitInVain();

  // Closes all channels; from any thread.
  void Close();

  // Blames the peer that it waits for, and returns that as text: "rank 1 waited
  // for rank 0 at 10.0.0.7:4000 (all_reduce, sequence 12 of generation 3)".
  // From any thread.
  [[nodiscard]] std::string BlameForWait(CollectiveOp op, int64_t sequence);
  [[nodiscard]] int waiting_for_rank() const {
    return waiting_for_rank_.load(std::memory_order_relaxed);
  }
  // The peer that the first failure names; -1 before.
  [[nodiscard]] int blamed_rank() const {
    return blamed_rank_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] WireCounters counters() const;
  // Returns the time that this rank has waited for `rank` so far with nothing
  // else left to do.
  [[nodiscard]] absl::Duration WaitedFor(int rank) const;
  // Communicator::LastNonFinite.
  [[nodiscard]] int64_t LastNonFinite(int rank) const;
  // Returns the transport to `rank`; kLoopback for itself and for a rank that
  // is not connected.
  [[nodiscard]] Transport TransportTo(int rank) const;

 private:
  [[nodiscard]] absl::Status Begin(const CollectiveRequest& request,
                                   int64_t sequence);
  [[nodiscard]] bool IsReady(const OperationQueue& queue) const;
  // Do the first operation of `queue` that is not done; return true if anything
  // moved.
  [[nodiscard]] absl::StatusOr<bool> Advance(OperationQueue& queue);
  [[nodiscard]] absl::StatusOr<bool> Send(OperationQueue& queue);
  [[nodiscard]] absl::StatusOr<bool> Receive(OperationQueue& queue);
  void DoLocally(const OperationQueue::Item& item);
  // Notes what the reduction of `item` has seen.
  void NoteNonFinite(const OperationQueue::Item& item, const NonFinite& seen);
  [[nodiscard]] FrameHeader HeaderOf(const Operation& operation,
                                     int source_rank) const;
  [[nodiscard]] std::byte* At(Area area, int64_t element);
  // Passes the fail points of the frame that is received next.
  [[nodiscard]] absl::Status PassReceivePoints(
      const Operation& operation) const;
  [[nodiscard]] bool AreSendsTaken() const;

  [[nodiscard]] absl::Status Await(MonotonicTime deadline);
  // Return true if a wait for the pair's channel is for a send; if it is for a
  // receive; if nothing is left to do.
  [[nodiscard]] bool AwaitsSend(const CollectivePlan::Pair& pair) const;
  [[nodiscard]] bool AwaitsReceive(const CollectivePlan::Pair& pair) const;
  [[nodiscard]] bool IsDone(const CollectivePlan::Pair& pair) const;
  // The peer whose progress would be ours.
  [[nodiscard]] int NextAwaited() const;
  void EndWait();
  void SetWaitingFor(int rank);
  [[nodiscard]] Channel& ChannelTo(int rank) const {
    return *member_.channels[static_cast<size_t>(rank)];
  }
  void NoteBlame(int rank);
  [[nodiscard]] absl::Status Blame(int rank, const absl::Status& status);

  const EngineMember member_;
  const CancelToken& cancel_;
  Clock& clock_;
  PlanCache plans_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> wire_;  // of elements that are rounded as on the wire

  // The state of the collective under way.
  CollectiveRequest request_;
  CollectivePlan* plan_ = nullptr;
  FrameHeader header_;  // the fields common to its frames
  PeerWait longest_;

  ChannelWait wait_;
  std::vector<AwaitedChannel> awaited_;

  std::atomic<int> waiting_for_rank_{-1};
  std::atomic<int> last_awaited_{-1};
  std::atomic<int> blamed_rank_{-1};
  std::atomic<int64_t> payload_sent_bytes_{0};
  std::atomic<int64_t> payload_received_bytes_{0};
  std::atomic<int64_t> framing_sent_bytes_{0};
  std::atomic<int64_t> refused_frames_{0};
  std::vector<std::atomic<int64_t>> waited_ns_;        // by rank
  std::vector<std::atomic<int64_t>> last_non_finite_;  // likewise
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_ENGINE_H_
