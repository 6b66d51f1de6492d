// Communicator runs collectives among the ranks of one generation of a job.
//
// Guarantees: collectives run one after another in the order of Start, which
// must be the same on all ranks; a frame of another job, generation, sequence,
// operation, dtype or length is refused with both ranks named and never reaches
// a buffer's sum; after a failed or aborted collective every later one fails
// with the same status (a Wait for one that had completed before is still OK:
// its buffer holds the result).
// Not guaranteed: fairness, or that all ranks see the same error (the
// coordinator decides what happened).
// Thread-safety: Start and Wait from one thread at a time (the training
// thread); Abort and the observers from any.
// Ownership: buffers stay the caller's and must stay untouched between Start
// and the return of Wait.
// Lifetime: one generation. The destructor aborts what is under way, closes
// every connection and joins its threads.
//
// Example:
//   const BufferView buffer = BufferView::Of(gradients);
//   ASSIGN_OR_RETURN(Ticket ticket, communicator->Start(AllReduceSum(buffer)));
//   ... compute something else ...
//   RETURN_IF_ERROR(communicator->Wait(ticket, deadline));
#ifndef RINGMASTER_WORKER_COLLECTIVE_COMMUNICATOR_H_
#define RINGMASTER_WORKER_COLLECTIVE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/reduction/reduction.h"
#include "common/tensor/dtype.h"
#include "common/transport/channel.h"
#include "worker/collective/algorithm.h"

namespace ringmaster {

enum class CollectiveOp : uint8_t {
  kAllReduce = 1,  // every rank ends with the elementwise reduction, bitwise
                   // equal on all ranks
  kReduceScatter,  // rank r ends with the reduction of ChunkOf(r, world_size,
                   // count), and of the chunks that it mirrors; the rest of the
                   // buffer is undefined
  kAllGather,  // rank r provides ChunkOf(r, world_size, count); every rank ends
               // with all chunks
  kBroadcast,  // every rank ends with `root`'s buffer
  kBarrier,    // count must be 0; returns once every rank has started it
};

enum class MemoryKind : uint8_t { kHost, kCuda };

// `count` elements of `dtype` at `ptr`. Count is the whole buffer's on every
// rank, also for scatter and gather. Elements of kUint8 are moved, not reduced.
struct BufferView {
  void* ptr = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  MemoryKind memory = MemoryKind::kHost;

  static BufferView Of(std::span<float> s) {
    return {s.data(), static_cast<int64_t>(s.size()), DType::kFloat32};
  }
  static BufferView Of(std::span<int64_t> s) {
    return {s.data(), static_cast<int64_t>(s.size()), DType::kInt64};
  }
};

struct CollectiveRequest {
  CollectiveOp op = CollectiveOp::kBarrier;
  BufferView buffer;
  int root = 0;                           // kBroadcast only
  Reduction reduction = Reduction::kSum;  // kAllReduce, kReduceScatter only
  // kReduceScatter only: copies of each chunk, at ranks that are as far behind
  // its own as MirrorDistances says.
  int mirrors = 0;
  // The type that elements are sent as; nullopt: their own. A float32 buffer
  // may travel as float16 or bfloat16: sums are still made in float32, and
  // every rank, including the one that made the sum, ends with the rounded one.
  std::optional<DType> wire = std::nullopt;
  Algorithm algorithm = Algorithm::kAuto;
  int64_t trace_label = -1;  // shown in the trace: the bucket's index, or -1
  int64_t trace_step = 0;    // shown in the trace: the training step
};

// Returns the type of the elements of a frame.
[[nodiscard]] inline DType WireOf(const CollectiveRequest& request) {
  return request.wire.value_or(request.buffer.dtype);
}

inline CollectiveRequest AllReduceSum(const BufferView& buffer) {
  return {CollectiveOp::kAllReduce, buffer};
}
inline CollectiveRequest ReduceScatterSum(const BufferView& buffer) {
  return {CollectiveOp::kReduceScatter, buffer};
}
inline CollectiveRequest MirroredReduceScatterSum(const BufferView& buffer,
                                                  int mirrors) {
  CollectiveRequest request = ReduceScatterSum(buffer);
  request.mirrors = mirrors;
  return request;
}
inline CollectiveRequest AllGather(const BufferView& buffer) {
  return {CollectiveOp::kAllGather, buffer};
}
inline CollectiveRequest Broadcast(const BufferView& buffer, int root) {
  return {CollectiveOp::kBroadcast, buffer, root};
}
inline CollectiveRequest Barrier() { return {CollectiveOp::kBarrier, {}}; }

// "all_reduce", "barrier", ...; "unknown" outside the enum. A literal: also the
// name of the trace's span.
[[nodiscard]] const char* CollectiveOpName(CollectiveOp op);

// Identifies a started collective: its position in the generation's sequence,
// from 1.
struct Ticket {
  int64_t sequence = 0;
};

// A communicator's progress, for beats and verdicts.
struct CollectiveProgress {
  int64_t completed = 0;  // sequence number of the last completed collective
  int64_t started = 0;    // of the last started one
  int waiting_for_rank =
      -1;                // the peer whose bytes are being waited for, or -1
  int blamed_rank = -1;  // the peer that the first failure names, or -1
};

// Payload and framing bytes written to and read from peers since creation.
struct WireCounters {
  int64_t payload_sent_bytes = 0;
  int64_t payload_received_bytes = 0;
  int64_t framing_sent_bytes = 0;
  int64_t refused_frames = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;

  // Queues a collective behind those already started; returns at once.
  //   INVALID_ARGUMENT  dtype, count, root or memory not supported
  //   the status of Abort or of the first failure, if there was one
  [[nodiscard]] virtual absl::StatusOr<Ticket> Start(
      const CollectiveRequest& request) = 0;

  // Waits until `ticket` is complete, `deadline` passes, or the communicator
  // fails.
  //   OK                 the buffer holds the result
  //   DEADLINE_EXCEEDED  names the peer waited for; the communicator is then
  //                      failed for good
  //   UNAVAILABLE        a peer closed or reset its connection (named); the
  //                      buffer is undefined
  //   ABORTED            Abort was called; the buffer is undefined
  //   FAILED_PRECONDITION  a peer sent a frame that does not match (both ranks
  //                      named): plan or generation differ
  [[nodiscard]] virtual absl::Status Wait(Ticket ticket,
                                          MonotonicTime deadline) = 0;

  // Start and Wait in one call, on the calling thread if the back end can: the
  // fast way for a small collective that overlaps nothing. The status is as of
  // Start and Wait.
  [[nodiscard]] virtual absl::Status Run(const CollectiveRequest& request,
                                         MonotonicTime deadline);

  // Fails everything under way and to come with ABORTED `why`, and unblocks
  // Wait within milliseconds.
  virtual void Abort(std::string_view why) = 0;

  // Returns the algorithm that `request` runs as: its own, or the one chosen
  // for it.
  [[nodiscard]] virtual Algorithm AlgorithmFor(
      const CollectiveRequest& request) const = 0;
  [[nodiscard]] virtual CollectiveProgress progress() const = 0;
  [[nodiscard]] virtual WireCounters counters() const = 0;
  // Returns the time that this rank has waited for `rank` in collectives, with
  // nothing else left to do; the straggler is the rank with the most such time.
  [[nodiscard]] virtual absl::Duration WaitedFor(int rank) const = 0;
  // Returns the time that all-reduces and reduce-scatters have run on this rank,
  // each from its beginning to its end; those that failed do not count.
  [[nodiscard]] virtual absl::Duration AllReduceTime() const = 0;
  // Returns the sequence number of the last reduction in which this rank saw an
  // infinity or a NaN in `rank`'s own contribution, as it travelled; 0 if there
  // was none so far. A rank checks the contributions, or the parts of them,
  // that it combines first: with any algorithm the ranks together see every
  // contribution in full, but a single rank may see nothing. Sums are not
  // contributions, not even sums of finite numbers that became an infinity.
  // Covers completed collectives. In a world of one nothing is combined, so
  // nothing is seen.
  [[nodiscard]] virtual int64_t LastNonFinite(int /*rank*/) const { return 0; }
  // Returns the transport to `rank`; kLoopback for itself and for a rank that
  // is not connected.
  [[nodiscard]] virtual Transport TransportTo(int rank) const = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_COMMUNICATOR_H_
