// A schedule is what one rank does in one collective: an ordered list of sends,
// receives and local steps, computed by pure code from the geometry alone.
//
// Every rank computes its own; together they fit: the k-th frame that rank a
// sends to rank b is the k-th that b receives from a, with the same begin,
// count and step. The engine (engine.h) runs the operations of each peer and
// direction in their order, and those of different peers in any order that
// their `after` allows; so a schedule must be right in every such order, and
// must never wait in a circle.
//
// Algorithms for an all-reduce of S bytes over n ranks:
//   exchange           every rank sends its whole buffer to all others and adds
//                      all of them in the order of ranks: one message's latency,
//                      (n-1)S bytes a rank. For small buffers.
//   direct             rank r adds chunk r of all ranks, in the order of ranks,
//                      and sends the result to all: two messages' latency,
//                      2(n-1)/n S bytes. For ranks that share a host.
//   ring               Patarasuk and Yuan (2009): 2(n-1) messages, each passed
//                      on segment by segment, 2(n-1)/n S bytes, two neighbours.
//   halving_doubling   Rabenseifner (2004) with the fold of Thakur et al. (2005)
//                      for other world sizes than powers of two: 2 log2 n
//                      messages, 2(n-1)/n S bytes (S more for folded ranks).
//   gather_broadcast   a root takes all buffers, adds them and sends the sum to
//                      all: what a single process with many devices does. The
//                      root moves 2(n-1)S bytes. For comparison.
//   hierarchical       inside each host a direct reduce-scatter, then a ring of
//                      hosts for each chunk, then a direct all-gather: between
//                      hosts 2(m-1)/m S bytes a host for m hosts.
// With every algorithm, either one rank completes an element and sends the same
// bits to all, or all compute it in the same order: results are equal bit for
// bit on all ranks.
#ifndef RINGMASTER_WORKER_COLLECTIVE_SCHEDULE_H_
#define RINGMASTER_WORKER_COLLECTIVE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "common/plan/topology.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// The elements of a collective are in two areas of memory: the caller's buffer,
// and scratch of `Schedule::scratch_count` elements, undefined at the start.
enum class Area : uint8_t { kBuffer, kScratch };

struct Operation {
  enum class Kind : uint8_t {
    kSend,     // the elements at (area, begin) to `peer`
    kReceive,  // a frame of `peer` into (area, begin)
    kLocal,    // from (from_area, from_begin) into (area, begin)
    kFinish,   // ReductionKernels::finish of (area, begin)
  };
  Kind kind = Kind::kSend;
  bool is_reduced = false;  // kReceive, kLocal: combined with what is there, in
                            // place of it
  bool is_as_wire = false;  // kLocal that is not reduced: the elements become
                            // what they would be after a trip over the wire (a
                            // 16-bit type rounds them). Without such a wire it
                            // copies, and onto itself does nothing
  Area area = Area::kBuffer;
  Area from_area = Area::kBuffer;  // kLocal
  int peer = -1;                   // kSend, kReceive
  int step = 0;                    // kSend, kReceive: a mark in the frame that
                                   // both sides must agree on; below 2^16
  int64_t begin = 0;
  int64_t from_begin = 0;  // kLocal
  int64_t count = 0;       // may be 0: the empty frame proves that plans agree
  // The operation begins once `after_count` frames from rank `after_peer` were
  // received; if `after_peer` is the own rank, once as many kLocal and kFinish
  // operations were done; if it is -1, at once.
  int after_peer = -1;
  int64_t after_count = 0;
};

struct Schedule {
  std::vector<Operation> operations;
  int64_t scratch_count = 0;  // elements
};

struct ScheduleRequest {
  CollectiveOp op = CollectiveOp::kBarrier;
  Algorithm algorithm = Algorithm::kRing;
  int rank = 0;
  int64_t count = 0;          // elements of the whole buffer
  int root = 0;               // broadcast
  int mirrors = 0;            // reduce-scatter: as in CollectiveRequest
  int64_t segment_count = 1;  // at most this many elements a frame
  // The rank that completes an element runs kFinish on it before sending it:
  // the sum of a reduction, the own chunk of an all-gather, the root's
  // broadcast.
  bool has_finish = false;
};

// Barriers are a dissemination (Hensgen, Finkel and Manber, 1988), whatever the
// algorithm. Broadcasts are a chain over the ring where `algorithm` is kRing,
// and direct from the root otherwise; reduce-scatter and all-gather are ring or
// direct; the latter three are ring where direct is not usable. A reduce-scatter
// with mirrors ends with the sending of each complete chunk to them: S/n bytes
// more for each. With two ranks
// ring and halving-doubling are direct: it moves the same bytes.
// Requires world_size >= 2, and an algorithm other than kAuto that
// IsUsable.
[[nodiscard]] Schedule BuildSchedule(const ScheduleRequest& request,
                                     const Topology& topology);

// Returns true if every two ranks that the algorithm brings together are
// connected; see PeersOf.
[[nodiscard]] bool IsUsable(Algorithm algorithm, const Topology& topology);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_SCHEDULE_H_
