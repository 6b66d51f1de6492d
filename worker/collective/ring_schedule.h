// The ring's schedule: which elements a rank sends and receives in a
// collective, and in which order.
//
// A ring all-reduce (Patarasuk and Yuan, 2009) has 2(n-1) steps. At step t rank
// r sends chunk r-1-t to the next rank and receives chunk r-2-t (both mod n)
// from the previous one; in the first n-1 steps, the reduce-scatter, it adds
// what it receives to its own, after which chunk r is complete at rank r; in
// the others, the all-gather, it keeps it. What a rank sends at step t+1 is
// what it received at step t, so a segment can be passed on as soon as it has
// come: nobody waits for whole chunks. Other collectives are parts of this
// (reduce-scatter, all-gather), a chain (broadcast) or a ring of empty frames
// (barrier).
//
// Pure.
#ifndef RINGMASTER_WORKER_COLLECTIVE_RING_SCHEDULE_H_
#define RINGMASTER_WORKER_COLLECTIVE_RING_SCHEDULE_H_

#include <cstdint>

#include "common/plan/partition.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// The chunk that `rank` sends and receives at `step` of the 2(n-1); n =
// world_size >= 2, 0 <= step.
[[nodiscard]] int SentChunk(int rank, int world_size, int step);
[[nodiscard]] int ReceivedChunk(int rank, int world_size, int step);

struct RingGeometry {
  CollectiveOp op = CollectiveOp::kBarrier;
  int rank = 0;
  int world_size = 1;         // at least 2
  int64_t count = 0;          // elements of the whole buffer
  int root = 0;               // broadcast
  int64_t segment_elems = 1;  // at most this many elements a frame
  // All-reduce of two ranks in one step: each sends its whole buffer, both add.
  // The same bytes as the ring's, half the latency, twice the additions; for
  // buffers of at most one segment.
  bool is_exchange = false;
};

// One frame's worth of a collective.
struct Segment {
  int64_t begin = 0;  // in elements
  int64_t count = 0;  // 0 in a barrier, and for an empty chunk: its frame still
                      // proves that plans agree
  int step = 0;
  bool is_reduced = false;  // received to be added, not to be kept

  friend bool operator==(const Segment&, const Segment&) = default;
};

// The segments that a rank sends, or receives, in order.
class SegmentCursor {
 public:
  static SegmentCursor Sends(const RingGeometry& geometry);
  static SegmentCursor Receives(const RingGeometry& geometry);

  [[nodiscard]] bool done() const { return step_ == end_step_; }
  // Requires !done().
  [[nodiscard]] Segment current() const;
  void Advance();

 private:
  SegmentCursor(const RingGeometry& geometry, bool is_send);
  [[nodiscard]] ElemRange RangeOf(int step) const;

  RingGeometry geometry_;
  bool is_send_;
  int step_ = 0;
  int end_step_ = 0;
  ElemRange range_;     // of this step
  int64_t offset_ = 0;  // elements of range_ already passed
};

// How many segments a rank may send before it has received any. The k-th send
// (from 0) may begin once k is below this plus the number of segments received.
[[nodiscard]] int64_t SendLead(const RingGeometry& geometry);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_RING_SCHEDULE_H_
