// ShardClient is a worker's side of the exchange with the holders of its job's
// shards (common/parameter_server/message.h), for one generation.
//
// It moves bytes on a thread of its own, so pushes and the parameters that come
// back hide behind the backward pass. Everything asked for is there once Await
// returns; after a failure everything fails with the same status.
//
// Thread-safety: on one thread at a time; the observers from any.
// Ownership: arenas belong to the caller and must not change while parts of
// them are requested or being sent; the destructor ends that and joins the
// thread.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_SHARD_CLIENT_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_SHARD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "common/parameter_server/message.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_layout.h"
#include "common/parameter_server/shard_placement.h"
#include "common/plan/plan.h"
#include "common/sync/mutex.h"
#include "common/tensor/dtype.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"

namespace ringmaster {

class ShardClient final : private MessageLoop::Handler {
 public:
  // References must outlive the client.
  struct Options {
    MessageLoop::Options loop = {};
    const Plan& plan;
    ShardLayout layout;
    ShardPlacements placements;
    // The type that gradients are sent as; nullopt: as they are.
    std::optional<DType> wire = std::nullopt;
    double clip_norm = 0;  // 0: updates wait for nobody's norm
    // Called on the client's thread with each pushed bucket and its new
    // parameters, before Await knows of it. May be empty.
    std::function<void(int bucket, absl::Span<const float> parameters)>
        on_answer = {};
    const CancelToken& cancel;
    Clock& clock;
    Trace& trace;
  };
  // `hosts` are the holders, each once for each lane; lanes count from 0.
  ShardClient(const Options& options, std::vector<MessagePeer> hosts);
  ~ShardClient() override;
  ShardClient(const ShardClient&) = delete;
  ShardClient& operator=(const ShardClient&) = delete;

  // Describes its shard to each primary; to be called first.
  void Open(std::span<const UpdateStretch> stretches);
  // Returns true if there are shards that no holder has.
  [[nodiscard]] bool has_to_load() const;
  // Sends the primaries of these shards an arena's contents as of `step`.
  void Load(StatePart part, int64_t step, absl::Span<const float> arena);
  // Fills a whole arena from the primaries.
  void Pull(StatePart part, int64_t step, absl::Span<float> arena);
  // Pushes a bucket of step `step` from one arena, and receives the updated
  // parameters in the other.
  void Push(int bucket, int64_t step, absl::Span<const float> gradients,
            absl::Span<float> parameters);
  // This worker needs nothing more. Everything sent has arrived once Await
  // returns.
  void Finish(DoneKind how);

  // Waits until everything requested has arrived.
  //   DEADLINE_EXCEEDED  names the rank that it waited for
  //   the errors of MessageLoop::PollOnce
  [[nodiscard]] absl::Status Await(MonotonicTime deadline);

  // The updates by the pushes since the last call, which are all answered.
  struct Updates {
    double norm_squared = 0;
    // The ranks whose gradients were not finite, ascending.
    std::vector<int> non_finite_ranks;
  };
  [[nodiscard]] Updates TakeUpdates();

  // Returns true if a holder wants to leave.
  [[nodiscard]] bool wants_drain() const;
  [[nodiscard]] int highest_rank() const;   // of those who hold shards
  [[nodiscard]] int64_t completed() const;  // answers that came
  // The rank that Await waits for; -1: none, or nobody has called Await.
  // Waiting that is hidden behind other work does not count.
  [[nodiscard]] int waiting_for_rank() const;
  [[nodiscard]] int blamed_rank() const;
  [[nodiscard]] int64_t payload_sent_bytes() const {
    return loop_.payload_sent_bytes();
  }
  // The time that Await has waited for `rank`.
  [[nodiscard]] absl::Duration WaitedFor(int rank) const {
    return loop_.WaitedFor(rank);
  }

 private:
  struct Outgoing {
    int peer = 0;
    ShardMessage message;
    MessageElements elements = {};
    std::vector<std::byte> bytes =
        {};  // in place of elements that lie elsewhere
  };
  // A bucket's awaited answer.
  struct Awaited {
    float* data = nullptr;  // null: none is awaited
    bool is_push = false;
    int64_t step = 0;
    MonotonicTime since = {};
  };

  absl::StatusOr<std::optional<MessageSink>> OnMessage(
      int peer, const ShardMessage& message) override;
  absl::Status OnComplete(int peer, const ShardMessage& message) override;
  void OnValues(int peer, const ShardMessage& message) EXCLUDES(mutex_);
  void TellOfAnswer(const ShardMessage& message) EXCLUDES(mutex_);
  [[nodiscard]] absl::Status OnNorm(int peer, const ShardMessage& message)
      EXCLUDES(mutex_);
  [[nodiscard]] absl::Status Unexpected(int peer,
                                        const ShardMessage& message) const;

  void Run();
  // Ends with the first failure.
  [[nodiscard]] absl::Status Serve();
  void Send(const Outgoing& next);
  void Ask(const ShardMessage& message, float* data, bool is_push,
           const MessageElements& elements = {});
  [[nodiscard]] Awaited& AwaitedOf(const ShardMessage& message)
      REQUIRES(mutex_);
  [[nodiscard]] int PeerOf(int shard) const {
    return peer_of_shard_[static_cast<size_t>(shard)];
  }
  [[nodiscard]] bool IsDone() const REQUIRES(mutex_) {
    return outstanding_ == 0 && (!is_finishing_ || unflushed_peer_ < 0);
  }
  // The peer that Await waits for; -1: it waits for none, or is not called.
  [[nodiscard]] int AwaitedPeer() const REQUIRES(mutex_);
  // The peer with most to answer; -1: nobody has anything.
  [[nodiscard]] int MostAwaitedPeer() const REQUIRES(mutex_);

  const Options options_;
  const std::vector<int> peer_of_shard_;
  MessageLoop loop_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Outgoing> outbox_ GUARDED_BY(mutex_);
  std::vector<Awaited> awaited_ GUARDED_BY(mutex_);  // bucket by part
  std::vector<int64_t> outstanding_of_peer_ GUARDED_BY(mutex_);
  int64_t outstanding_ GUARDED_BY(mutex_) = 0;
  int64_t completed_ GUARDED_BY(mutex_) = 0;
  // The squared norms of the pushes since TakeUpdates: each bucket's, and each
  // shard's if gradients are clipped.
  std::vector<double> bucket_norms_ GUARDED_BY(mutex_);
  std::vector<double> shard_norms_ GUARDED_BY(mutex_);
  std::vector<bool> has_shard_norm_ GUARDED_BY(mutex_);
  int64_t pushed_step_ GUARDED_BY(mutex_) = 0;
  size_t shard_norm_count_ GUARDED_BY(mutex_) = 0;
  std::set<int> non_finite_ranks_ GUARDED_BY(mutex_);
  bool wants_drain_ GUARDED_BY(mutex_) = false;
  bool is_awaited_ GUARDED_BY(mutex_) = false;  // Await is waiting
  bool is_finishing_ GUARDED_BY(mutex_) = false;
  // A peer that has yet to take the end of the run; -1: none.
  int unflushed_peer_ GUARDED_BY(mutex_) = -1;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  absl::Status failure_ GUARDED_BY(mutex_);
  int blamed_rank_ GUARDED_BY(mutex_) = -1;

  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_SHARD_CLIENT_H_
