#include "worker/collective/ring_schedule.h"

#include <algorithm>
#include <limits>

namespace ringmaster {
namespace {

int Modulo(int value, int n) { return ((value % n) + n) % n; }

// How far `rank` is from the root along the chain.
int ChainPosition(const RingGeometry& g) {
  return Modulo(g.rank - g.root, g.world_size);
}

int64_t SegmentsIn(int64_t count, int64_t segment_elems) {
  return std::max<int64_t>(1, (count + segment_elems - 1) / segment_elems);
}

}  // namespace

int SentChunk(int rank, int world_size, int step) {
  return Modulo(rank - 1 - step, world_size);
}

int ReceivedChunk(int rank, int world_size, int step) {
  return Modulo(rank - 2 - step, world_size);
}

SegmentCursor SegmentCursor::Sends(const RingGeometry& geometry) {
  return SegmentCursor(geometry, /*is_send=*/true);
}

SegmentCursor SegmentCursor::Receives(const RingGeometry& geometry) {
  return SegmentCursor(geometry, /*is_send=*/false);
}

SegmentCursor::SegmentCursor(const RingGeometry& geometry, bool is_send)
    : geometry_(geometry), is_send_(is_send) {
  const int turns = geometry.world_size - 1;
  switch (geometry.op) {
    case CollectiveOp::kAllReduce:
      end_step_ = geometry.is_exchange ? 1 : 2 * turns;
      break;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kBarrier:
      end_step_ = turns;
      break;
    case CollectiveOp::kAllGather:
      step_ = turns;
      end_step_ = 2 * turns;
      break;
    case CollectiveOp::kBroadcast:
      // The root receives nothing, the chain's last rank sends nothing.
      end_step_ = ChainPosition(geometry) == (is_send ? turns : 0) ? 0 : 1;
      break;
  }
  if (!done()) range_ = RangeOf(step_);
}

ElemRange SegmentCursor::RangeOf(int step) const {
  const RingGeometry& g = geometry_;
  if (g.is_exchange || g.op == CollectiveOp::kBroadcast ||
      g.op == CollectiveOp::kBarrier) {
    return {0, g.count};
  }
  const int chunk = is_send_ ? SentChunk(g.rank, g.world_size, step)
                             : ReceivedChunk(g.rank, g.world_size, step);
  return ChunkOf(chunk, g.world_size, g.count);
}

Segment SegmentCursor::current() const {
  Segment segment;
  segment.begin = range_.begin + offset_;
  segment.count = std::min(geometry_.segment_elems, range_.count - offset_);
  segment.step = step_;
  const bool adds = geometry_.op == CollectiveOp::kAllReduce ||
                    geometry_.op == CollectiveOp::kReduceScatter;
  segment.is_reduced = !is_send_ && adds && step_ < geometry_.world_size - 1;
  return segment;
}

void SegmentCursor::Advance() {
  offset_ += geometry_.segment_elems;
  if (offset_ < range_.count) return;
  offset_ = 0;
  if (++step_ < end_step_) range_ = RangeOf(step_);
}

int64_t SendLead(const RingGeometry& geometry) {
  if (geometry.op == CollectiveOp::kBroadcast) {
    return ChainPosition(geometry) == 0
               ? std::numeric_limits<int64_t>::max() / 2
               : 0;
  }
  if (geometry.is_exchange || geometry.op == CollectiveOp::kBarrier) return 1;
  const int first_step =
      geometry.op == CollectiveOp::kAllGather ? geometry.world_size - 1 : 0;
  const int chunk = SentChunk(geometry.rank, geometry.world_size, first_step);
  return SegmentsIn(ChunkOf(chunk, geometry.world_size, geometry.count).count,
                    geometry.segment_elems);
}

}  // namespace ringmaster
