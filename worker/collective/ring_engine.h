// RingEngine runs one collective at a time over the links to the previous and
// the next rank, on the calling thread.
//
// Both links move at once and without blocking: what can be sent is sent, what
// has come is taken, and only when neither moves does the thread wait in
// poll(2), after looking again for a few microseconds. Used by HostCommunicator
// only.
// Thread-safety: Run from one thread at a time; the observers from any.
#ifndef RINGMASTER_WORKER_COLLECTIVE_RING_ENGINE_H_
#define RINGMASTER_WORKER_COLLECTIVE_RING_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "common/transport/frame_stream.h"
#include "common/transport/link.h"
#include "worker/collective/communicator.h"
#include "worker/collective/ring_schedule.h"

namespace ringmaster {

struct RingMember {
  uint64_t job = 0;  // JobHash
  int64_t generation = 0;
  int rank = 0;
  int world_size = 1;
};

class RingEngine {
 public:
  // `cancel` and `clock` must outlive the engine.
  RingEngine(const RingMember& member, std::unique_ptr<Link> next,
             std::unique_ptr<Link> prev, const CancelToken& cancel,
             Clock& clock);

  // Runs `request` as the collective number `sequence`. After an error the
  // streams' positions are lost: Close.
  //   the statuses of Communicator::Wait; with `cancel` cancelled, its status
  [[nodiscard]] absl::Status Run(const CollectiveRequest& request,
                                 int64_t sequence, MonotonicTime deadline);

  // Closes both links; from any thread.
  void Close();

  // Blames the peer that is being waited for, and says so: "rank 1 waited for
  // rank 0 at 10.0.0.7:4000 (all_reduce, sequence 12 of generation 3)". From
  // any thread.
  [[nodiscard]] std::string BlameForWait(CollectiveOp op, int64_t sequence);
  [[nodiscard]] int waiting_for_rank() const {
    return waiting_for_rank_.load(std::memory_order_relaxed);
  }
  // The peer that the first failure names; -1 before.
  [[nodiscard]] int blamed_rank() const {
    return blamed_rank_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] WireCounters counters() const;

 private:
  [[nodiscard]] int prev_rank() const;
  [[nodiscard]] int next_rank() const;
  void Begin(const CollectiveRequest& request, int64_t sequence);
  [[nodiscard]] bool IsComplete() const {
    return send_.done() && !is_sending_ && receive_.done() && !is_receiving_;
  }
  [[nodiscard]] FrameHeader HeaderOf(const Segment& segment,
                                     int source_rank) const;
  [[nodiscard]] std::byte* At(const Segment& segment) const;

  // Both return whether bytes moved or a frame was completed.
  [[nodiscard]] absl::StatusOr<bool> TrySend();
  [[nodiscard]] absl::StatusOr<bool> TryReceive();
  void OnReceived(const Segment& segment);
  // The fail points of the segment that is received next.
  [[nodiscard]] absl::Status PassReceivePoints(const Segment& segment) const;

  [[nodiscard]] absl::Status AwaitIo(MonotonicTime deadline);
  [[nodiscard]] absl::Status Poll(MonotonicTime now, MonotonicTime deadline);
  // Blames the neighbour whose host does not answer any more.
  [[nodiscard]] absl::Status CheckPeers(MonotonicTime now);
  // What is wrong with the link to the next rank, which poll says is over.
  [[nodiscard]] absl::Status FateOfNext();
  void OnSpinEnd(bool was_fruitful);
  void SetWaitingFor(int rank);
  [[nodiscard]] absl::Status Blame(int rank, const absl::Status& status);

  const RingMember member_;
  const std::unique_ptr<Link> next_;
  const std::unique_ptr<Link> prev_;
  const CancelToken& cancel_;
  Clock& clock_;
  std::vector<std::byte> scratch_;  // one segment

  // Of the collective under way.
  CollectiveRequest request_;
  FrameHeader header_;  // the fields common to its frames
  RingGeometry geometry_;
  int64_t elem_bytes_ = 1;
  SegmentCursor send_;
  SegmentCursor receive_;
  int64_t send_lead_ = 0;
  int64_t sends_begun_ = 0;
  int64_t received_ = 0;
  bool is_sending_ = false;
  bool is_receiving_ = false;
  bool is_staged_ = false;  // the frame being received goes through scratch_

  FrameWriter writer_;
  FrameReader reader_;
  int fruitless_rounds_ = 0;
  int spin_rounds_;
  int sleeps_ = 0;

  std::atomic<int> waiting_for_rank_{-1};
  std::atomic<int> blamed_rank_{-1};
  std::atomic<int64_t> payload_sent_bytes_{0};
  std::atomic<int64_t> payload_received_bytes_{0};
  std::atomic<int64_t> framing_sent_bytes_{0};
  std::atomic<int64_t> refused_frames_{0};
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_RING_ENGINE_H_
