// NcclEngine runs the collectives of one generation on a GPU: one thread, the
// only one that calls NCCL, one stream on which all of them run in the order of
// Start, and their state for others to read.
//
//   compute stream  ...gradients of bucket 0 |ready|  ...of bucket 1 |ready| ...
//                                               \                       \.
//   nccl stream                                  |begin| bucket 0 |end|  |begin|..
//
// A collective waits on the device for the work that computes its buffer (an
// event in), and others can wait on the device for it (an event out): the host
// only queues. A collective is complete if it ended before anything failed: the
// first failure is noted before NCCL is told to abort, and nothing completes
// after that.
// Why one thread: a communicator may be aborted only while no other thread is
// inside NCCL for it. Why one stream, for split groups too: collectives of
// several communicators that run at once can wait for each other's space on the
// devices, in another order on each.
// Abort: Fail returns at once and the thread tells NCCL, which stops its
// kernels within milliseconds and takes up to a second to free the rest; it has
// been seen never to return from that (NVIDIA/nccl#1777). Close waits for the
// kernels alone and leaves the rest to NcclRetired, so that the next generation
// need not wait for it. If kernels have not stopped after `abort_timeout`, it
// calls `on_abort_hung` and leaves the engine to the process, which has to end:
// they may still write to buffers.
// Thread-safety: Start, Wait, WaitOnStream, Connect, Split and Close from one
// thread at a time; the rest from any.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_ENGINE_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl/nccl_comms.h"
#include "worker/collective/nccl/nccl_peers.h"
#include "worker/collective/nccl/nccl_request.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/nccl_library.h"

namespace ringmaster {

class NcclRetired;

class NcclEngine {
 public:
  // Collectives that may be started and not yet complete.
  static constexpr int kMaxQueued = 4096;

  struct Options {
    const CudaDevice* device = nullptr;  // outlives the engine
    Clock* clock = nullptr;              // outlives the engine
    Trace* trace = nullptr;  // may be null; else outlives the engine
    int rank = 0;
    int64_t generation = 0;
    absl::Duration abort_timeout = absl::Seconds(5);
    // Takes over what NCCL has yet to free when its kernels have stopped; null:
    // Close waits for that too.
    NcclRetired* retired = nullptr;
    // Until Connected is called, cancelling it is a failure. May be null.
    const CancelToken* cancel = nullptr;
    // Called once, with the first failure, on the thread that noted it, which
    // may be any.
    std::function<void(const absl::Status&)> on_failure = {};
  };

  // A started collective's place among those of this engine, from 1.
  using Sequence = int64_t;

  struct Totals {
    Sequence started = 0;
    Sequence completed = 0;
    // True if this rank's device has reached the next collective and others
    // have not. (Or the collective runs.)
    bool is_in_collective = false;
    NcclTraffic traffic;
    absl::Duration all_reduce;
  };

  struct Membership {
    int group = NcclComms::kNoGroup;
    NcclComms::Group of;
  };

  // Makes the stream and the thread. Errors as CudaStream's.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NcclEngine>> Create(
      const Options& options);

  // Ends it in bounded time: together with the peers if nothing has failed and
  // nothing is under way, otherwise by an abort. From then on nothing of it
  // writes to a buffer. `on_abort_hung` may be empty.
  static void Close(
      std::unique_ptr<NcclEngine> engine,
      const std::function<void(const absl::Status&)>& on_abort_hung);

  // Makes group 0, of all ranks; without it the engine is a world of one. Then
  // registers `arena`, if there is one.
  //   DEADLINE_EXCEEDED  not all ranks were there in time
  //   else NcclComms::Connect's, or the first failure
  [[nodiscard]] absl::Status Connect(const NcclLibrary& library,
                                     const NcclId& id, int world_size,
                                     BufferView arena, MonotonicTime deadline);
  // Says that the generation is made: `cancel` is no longer looked at.
  void Connected();
  // As NcclComms::Split of group 0; FAILED_PRECONDITION in a world of one.
  [[nodiscard]] absl::StatusOr<Membership> Split(int color, int key,
                                                 MonotonicTime deadline);

  // Queues `request`, which CheckNcclRequest accepts, for `group`, behind what
  // is ready in `compute` now (CudaStream::MarkReady); that is not queued again
  // before this collective is complete.
  //   RESOURCE_EXHAUSTED  kMaxQueued are queued already
  //   the first failure, or an error of `compute`
  [[nodiscard]] absl::StatusOr<Sequence> Start(int group,
                                               const CollectiveRequest& request,
                                               const NcclTraffic& traffic,
                                               CudaStream& compute);

  // As Communicator::Wait. After a failure the buffer may be written to until
  // Close returns.
  [[nodiscard]] absl::Status Wait(Sequence sequence, MonotonicTime deadline);
  // Work queued in `stream` from here on runs after the collective; only Wait
  // can tell whether it completed. Waits only until NCCL has queued it.
  [[nodiscard]] absl::Status WaitOnStream(Sequence sequence, CudaStream& stream,
                                          MonotonicTime deadline);

  // Fails everything under way and to come with `status`, unless something
  // failed before. Returns at once.
  void Fail(const absl::Status& status);
  // OK, or the first failure.
  [[nodiscard]] absl::Status failure() const { return failure_.status(); }
  // Returns true if Close would still wait `abort_timeout` after a failure.
  [[nodiscard]] bool abort_hung() const;
  [[nodiscard]] Totals totals() const;

 private:
  friend class NcclRetired;
  // Abandons an engine whose thread is inside NCCL, perhaps for good: the
  // thread may still use the engine, so it is never destroyed. The process ends
  // soon.
  static void Abandon(std::unique_ptr<NcclEngine> engine);
  struct Events {
    std::unique_ptr<CudaEvent> ready;
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> end;
  };
  struct Item {
    Sequence sequence = 0;
    int group = 0;
    CollectiveRequest request;
    NcclTraffic traffic;
    const CudaEvent* ready = nullptr;
    std::shared_ptr<Events> events;
    MonotonicTime started;
    // Where the trace has it, and what it says.
    int64_t place = 0;
    TraceSpan span = {};
  };
  // A task on the communicators, for the engine's thread.
  struct Job {
    std::function<absl::Status(const KeepWaiting&)> work;
    MonotonicTime deadline;
    const char* what = "";
    bool is_done = false;
    absl::Status status;
  };
  enum class Task { kJob, kIssue, kPoll, kEnd };

  NcclEngine(const Options& options, std::unique_ptr<CudaStream> stream);

  [[nodiscard]] absl::Status Do(
      const char* what, MonotonicTime deadline,
      std::function<absl::Status(const KeepWaiting&)> work);
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Events>> TakeEvents();
  [[nodiscard]] absl::StatusOr<Sequence> Admit(Item item);
  [[nodiscard]] absl::Status TooLate(Sequence sequence) const EXCLUDES(mutex_);
  [[nodiscard]] bool IsIssued(Sequence sequence) const REQUIRES(mutex_);

  // On the engine's thread.
  void ThreadMain();
  [[nodiscard]] Task AwaitTask();
  // Waits until something is asked of the thread, but not longer than `most`.
  void AwaitChange(absl::Duration most);
  void RunJob();
  void IssueNext();
  // Notes the collectives that are done. Returns true if there were any.
  bool PollItems();
  // Notes whether the device has reached `item`: the oldest, not done, run by
  // NCCL.
  void NoteWhereItIs(const Item& item);
  void Complete(const Item& item);
  // Tell the trace: of a collective that is queued; that it has begun, ended, or
  // that those which have begun never will.
  void RecordQueued(Item& item) REQUIRES(mutex_);
  void RecordBegun() REQUIRES(mutex_);
  void Record(const Item& item, absl::Duration since_ready, absl::Duration ran);
  void RecordBrokenOff() EXCLUDES(mutex_);
  void End();
  void AwaitCompute();
  // Notes that nothing more is queued, and NCCL is about to free what it has.
  void NoteFreeing();

  // Returns true if no kernel of it runs any more, or will.
  [[nodiscard]] bool IsQuiet() const EXCLUDES(mutex_);
  // Returns true if all is freed, or NcclRetired can take over the rest.
  [[nodiscard]] bool CanClose() const;
  // Waits until `is_so`, which takes the lock, returns true, or until
  // `deadline`. Returns true if it did.
  [[nodiscard]] bool Await(absl::FunctionRef<bool()> is_so,
                           MonotonicTime deadline) EXCLUDES(mutex_);
  [[nodiscard]] bool has_ended() const;
  // Returns true if freeing takes longer than `abort_timeout`.
  [[nodiscard]] bool IsLate() const;

  const Options options_;
  const std::unique_ptr<CudaStream> stream_;  // the engine's thread
  std::optional<NcclComms> comms_;            // the engine's thread
  MonotonicTime next_look_;                   // the engine's thread
  CancelToken failure_;

  mutable Mutex mutex_;
  // Signalled for another task, another outcome, the end.
  CondVar changed_;
  // The items, from the oldest that is not complete; the first issued_count_
  // are in the stream. Only the engine's thread removes any.
  std::deque<Item> items_ GUARDED_BY(mutex_);
  size_t issued_count_ GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Events>> spare_events_ GUARDED_BY(mutex_);
  std::shared_ptr<Job> job_ GUARDED_BY(mutex_);
  const CancelToken* cancel_ GUARDED_BY(mutex_);  // null: no longer of interest
  Totals totals_ GUARDED_BY(mutex_);
  // The time when the first failure was noted, later the time when freeing
  // began; on the real clock.
  MonotonicTime failed_at_ GUARDED_BY(mutex_);
  bool is_closing_ GUARDED_BY(mutex_) = false;
  bool is_freeing_ GUARDED_BY(mutex_) = false;
  // True if a launch was given up: then only the end of freeing proves that
  // nothing follows.
  bool may_queue_more_ GUARDED_BY(mutex_) = false;
  bool has_ended_ GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: uses everything above
};

// Closed engines of which NCCL still has something to free.
//
// Thread-safety: thread-safe.
// Ownership: outlives the communicators that are closed into it.
class NcclRetired {
 public:
  NcclRetired() = default;
  NcclRetired(const NcclRetired&) = delete;
  // As Drain.
  ~NcclRetired();

  // Releases those that have ended. UNAVAILABLE: one has not ended within its
  // `abort_timeout`; it is left to the process, which has to end.
  [[nodiscard]] absl::Status Collect();
  // Waits for all of them, each for at most its `abort_timeout`; call it before
  // freeing memory that NCCL may have registered. Errors as Collect.
  [[nodiscard]] absl::Status Drain();

 private:
  friend class NcclEngine;
  void Add(std::unique_ptr<NcclEngine> engine);
  [[nodiscard]] std::vector<std::unique_ptr<NcclEngine>> TakeAll();
  // Joins one that has ended; UNAVAILABLE, and abandons it, if it has not.
  [[nodiscard]] static absl::Status Settle(std::unique_ptr<NcclEngine> engine);

  Mutex mutex_;
  std::vector<std::unique_ptr<NcclEngine>> engines_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_ENGINE_H_
