// ShardRun is one shard at one of its holders, for one generation: it takes
// pushes, makes updates of them, and answers.
//
// At the primary it gathers what workers push, and answers them, once the
// backup, if there is one, has the update too. At the backup it makes the same
// updates. The protocol is that of common/parameter_server/message.h; what does
// not fit is refused, naming who sent it.
//   bsp: a bucket is updated with the sum of all workers' gradients.
//   ssp, async: with each gradient, as one of the updates that make up a step.
// Thread-safety: on the thread of the message loop.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_RUN_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_RUN_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameter_server/message.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/update_rules.h"
#include "common/sync/thread_pool.h"
#include "worker/parameter_server/shard_state.h"
#include "worker/parameter_server/staleness_gate.h"

namespace ringmaster {

// The signs by which other threads see the progress of a lane of a host.
struct HostSigns {
  // See ShardHost.
  std::atomic<int> waiting_for_rank{-1};
  // Others wait because of that rank.
  std::atomic<bool> is_held_up{false};
  std::atomic<int64_t> taken_messages{0};
  std::atomic<int64_t> begin_step{0};
  std::atomic<bool> takes_pushes{false};

  // One is here: what follows is work, until it waits again.
  void NoteMessage() {
    waiting_for_rank.store(-1, std::memory_order_relaxed);
    taken_messages.fetch_add(1, std::memory_order_relaxed);
  }
};

// The context that the shards of one lane of a host share in a generation; all
// of it outlives them.
struct HostContext {
  MessageLoop& loop;
  ThreadPool& pool;
  UpdateRules rules;
  std::vector<int> worker_peers;  // by rank, in the loop
  int64_t resume_step = 0;
  // The shards are those that LaneOfShard puts in `lane`.
  int lane = 0;
  int lanes = 1;
  const std::atomic<bool>& wants_drain;
  HostSigns& signs;

  [[nodiscard]] int workers() const {
    return static_cast<int>(worker_peers.size());
  }
};

class ShardRun {
 public:
  using Sink = absl::StatusOr<std::optional<MessageSink>>;

  // `backup_peer`: of the loop; -1: none, or not the primary.
  ShardRun(const HostContext& context, int shard, bool is_primary,
           int backup_peer);

  [[nodiscard]] int shard() const { return shard_; }
  [[nodiscard]] bool is_primary() const { return is_primary_; }
  // The state that is held of it; null before it is known what the shard is.
  [[nodiscard]] ShardState* state() const { return state_; }
  void SetState(ShardState* state);
  // The state is loaded: workers begin after the resume step, or, if it was
  // given anew (from a checkpoint, which nobody knew of), after its own.
  void Begin(bool is_given_anew);
  [[nodiscard]] bool is_loaded() const {
    return state_ != nullptr && state_->is_loaded();
  }
  // Returns the bucket of the shard that `message` is about, and checks that
  // the message has all elements of it (`has_elements`) or none.
  //   FAILED_PRECONDITION  it is not the shard's
  [[nodiscard]] absl::StatusOr<int> BucketOf(const ShardMessage& message,
                                             bool has_elements) const;

  // A worker's messages, before and after their elements.
  [[nodiscard]] Sink BeginPull(const ShardMessage& message) const;
  [[nodiscard]] absl::Status Pulled(int peer, const ShardMessage& message);
  [[nodiscard]] Sink BeginPush(int worker, const ShardMessage& message);
  [[nodiscard]] absl::Status Pushed(int worker, const ShardMessage& message);
  [[nodiscard]] absl::Status Scaled(const ShardMessage& message);
  // It pushes nothing more.
  void Leave(int worker);

  // With ssp and async, at the primary. IsFree returns true if an update of a
  // bucket could be made now; PushOutside makes it with `gradient`, the mean
  // over the samples of somebody who is no worker. Nobody is answered.
  [[nodiscard]] bool IsFree(int bucket) const;
  // Returns true if the backup has yet to say that it has the bucket's last
  // update.
  [[nodiscard]] bool AwaitsBackup(int bucket) const {
    return gatherings_[static_cast<size_t>(bucket)].awaits_backup;
  }
  [[nodiscard]] absl::Status PushOutside(int bucket,
                                         absl::Span<const float> gradient);

  // The primary's messages, at the backup; `peer` gets the answer.
  [[nodiscard]] Sink BeginUpdate(const ShardMessage& message);
  [[nodiscard]] absl::Status Updated(int peer, const ShardMessage& message);
  // The backup's, at the primary: that it is ready for updates, or has made
  // one.
  void SetBackupReady() { is_backup_ready_ = true; }
  [[nodiscard]] bool awaits_backup_begin() const {
    return backup_peer_ >= 0 && !is_backup_ready_;
  }
  // Returns true if there are updates that the backup has not made yet.
  [[nodiscard]] bool awaits_backup() const { return awaited_updates_ > 0; }
  [[nodiscard]] absl::Status BackupUpdated(const ShardMessage& message);

  [[nodiscard]] const StalenessGate* gate() const {
    return gate_.has_value() ? &*gate_ : nullptr;
  }

 private:
  // A bucket's next update, while it is put together.
  struct Gathering {
    std::vector<bool> has_pushed;  // by rank
    int pushed_count = 0;
    int receiving_count = 0;
    int first_rank = -1;       // who pushed first; -1: no worker
    int non_finite_rank = -1;  // the lowest
    bool awaits_backup = false;
    int64_t step = 0;
    double norm_squared = 0;
  };
  // An answer that waits for slower workers.
  struct Waiting {
    int bucket = 0;
    Gathering update;
  };

  [[nodiscard]] Gathering& GatheringOf(int bucket) {
    return gatherings_[static_cast<size_t>(bucket)];
  }
  [[nodiscard]] ShardMessage About(ShardOp op, int bucket, int64_t step) const;
  [[nodiscard]] absl::StatusOr<bool> MayGather(int worker, int bucket,
                                               const ShardMessage& message);
  void NoteNonFinite(Gathering& gathering, int worker);
  [[nodiscard]] absl::Status Summed(int bucket);
  [[nodiscard]] absl::Status MakeUpdate(int bucket, double scale);
  [[nodiscard]] absl::Status MakePart(int bucket, int worker);
  void TellBackup(int bucket, int64_t step, int rank, double scale);
  [[nodiscard]] absl::Status Answer(int bucket);
  void AnswerWaiting();
  void SendValues(int peer, int bucket, StatePart part,
                  const Gathering& update);

  const HostContext& context_;
  const int shard_;
  const bool is_primary_;
  const int backup_peer_;
  bool is_backup_ready_ = false;
  int awaited_updates_ = 0;  // of the backup
  ShardState* state_ = nullptr;
  std::vector<Gathering> gatherings_;  // by bucket of the shard
  // By rank: of the push that is being received.
  std::vector<NonFinite> seen_;
  std::vector<bool> is_alone_;  // nobody else's is being received
  // With clipping.
  int summed_count_ = 0;
  int64_t scaled_step_ = -1;
  double scale_ = 1;
  // Set if workers do not wait for each other at every step.
  std::optional<StalenessGate> gate_;
  std::vector<Waiting> waiting_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_RUN_H_
