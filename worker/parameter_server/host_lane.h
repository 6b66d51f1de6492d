// HostLane is one of the threads that serve a host's shards, with the shards
// that it alone serves: lanes share nothing that a message needs.
//
// Shard s of S is lane LaneOfShard(s, S, lanes)'s, on every host and for every
// worker, and each lane has connections of its own. One generation is one
// Prepare and one Run.
//
// A copy that a generation does not need here stays all the same, as a spare,
// until every holder of that generation has its own: those that are to take the
// shard over may be lost before they have loaded it.
// Thread-safety: Prepare, Run and Clear from one thread at a time; the others
// from any.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_HOST_LANE_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_HOST_LANE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/optimizer/optimizer_config.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_host.h"
#include "common/parameter_server/update_rules.h"
#include "common/sync/mutex.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/allocator.h"
#include "common/transport/cancel_token.h"
#include "worker/parameter_server/host_mailbox.h"
#include "worker/parameter_server/host_run.h"
#include "worker/parameter_server/least_steps.h"
#include "worker/parameter_server/shard_run.h"
#include "worker/parameter_server/shard_state.h"

namespace ringmaster {

// The description of a generation that all lanes of a host get.
struct HostGeneration {
  ShardHostAssignment assignment;
  OptimizerConfig optimizer;
  int64_t total_steps = 1;
  UpdateRules rules;
  int lanes = 1;
  Allocator* parameters = nullptr;  // what they are made of
};

class HostLane final : private ShardShelf {
 public:
  // The lane `index` of its host. References must outlive it.
  HostLane(int index, Clock& clock, const std::atomic<bool>& wants_drain);

  // As of ShardHost, with the shards that are this lane's. `generation` stays
  // as it is until the next call.
  [[nodiscard]] absl::Status Prepare(const HostGeneration& generation);
  [[nodiscard]] absl::StatusOr<DoneKind> Run(ShardHostLinks links,
                                             const CancelToken& cancel);
  // Forgets the shards.
  void Clear() EXCLUDES(mutex_);
  // Lets a Run, also one that has not begun, end soon with ABORTED.
  void Interrupt();

  // Has the thread of Run do something with the shards (HostMailbox::Call).
  using Task = std::function<std::optional<absl::Status>(
      HostRun& run, const HostGeneration& generation)>;
  [[nodiscard]] absl::Status Call(const Task& task, MonotonicTime deadline);

  // By shard; spares count where there is nothing newer.
  [[nodiscard]] std::vector<HeldShard> held_shards() const EXCLUDES(mutex_);
  // The steps of the last Run.
  [[nodiscard]] LeastSteps least_steps() const;
  // As of the last time that a step was complete, or of the end.
  [[nodiscard]] std::vector<int64_t> staleness() const EXCLUDES(mutex_);
  [[nodiscard]] const HostSigns& signs() const { return signs_; }
  [[nodiscard]] bool is_running() const {
    return is_running_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] absl::Duration WaitedFor(int rank) const EXCLUDES(mutex_);
  [[nodiscard]] int blamed_rank() const {
    return blamed_rank_.load(std::memory_order_relaxed);
  }

 private:
  ShardState* Find(int shard) override;
  absl::StatusOr<ShardState*> Make(
      const ShardDescription& description) override;

  // What a copy that is held is in the generation.
  enum class Use { kNone, kPart, kSpare };

  [[nodiscard]] bool IsOwn(int shard) const;
  // Forgets copies updated in place that earlier generations left behind, of
  // another step than the one that this generation resumes at.
  void DropStaleSpares();
  // Sorts the copies that are held by their use.
  //   FAILED_PRECONDITION  one should be of use, and is not
  [[nodiscard]] absl::Status SortCopies();
  [[nodiscard]] absl::StatusOr<Use> UseOf(int shard, ShardState& state) const;
  [[nodiscard]] absl::Status CheckSources() const;
  [[nodiscard]] absl::StatusOr<DoneKind> Serve(HostRun& run, MessageLoop& loop);
  // Forgets the spares once no holder can lack its copy any more.
  void DropSpares(const LeastSteps& least);
  // Shows what has changed; takes no lock if no further step is complete.
  void Publish(const HostRun& run) EXCLUDES(mutex_);
  void PublishStaleness(const HostRun& run) EXCLUDES(mutex_);
  void PublishHeld() EXCLUDES(mutex_);
  // Sets the loop that others may look at; null: none.
  void Expose(const MessageLoop* loop) EXCLUDES(mutex_);

  const int index_;
  Clock& clock_;
  const std::atomic<bool>& wants_drain_;
  ThreadPool pool_{1};  // the thread of Run
  HeapAllocator heap_;
  HostMailbox mailbox_;

  const HostGeneration* generation_ = nullptr;
  std::map<int, std::unique_ptr<ShardState>> shards_;  // of the generation
  std::map<int, std::unique_ptr<ShardState>> spares_;  // loaded
  HostRun* run_ = nullptr;  // that is being served, for the mailbox's tasks

  std::atomic<bool> is_interrupted_{false};
  std::atomic<int64_t> primary_step_;  // kNoStep: there is none
  std::atomic<int64_t> copy_step_;
  int loaded_count_ = 0;  // as of held_
  HostSigns signs_;
  std::atomic<bool> is_running_{false};
  std::atomic<int> blamed_rank_{-1};
  mutable Mutex mutex_;
  const MessageLoop* loop_ GUARDED_BY(mutex_) = nullptr;  // null: does not run
  std::vector<HeldShard> held_ GUARDED_BY(mutex_);
  std::vector<int64_t> staleness_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_HOST_LANE_H_
