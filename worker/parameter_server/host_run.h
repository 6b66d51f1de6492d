// HostRun is one generation of a process that holds shards, of one of its
// lanes: who is connected, who has said what, and which shard a message is for.
//
// Thread-safety: on the thread of the message loop.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_HOST_RUN_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_HOST_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameter_server/message.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_host.h"
#include "common/parameter_server/shard_layout.h"
#include "worker/parameter_server/least_steps.h"
#include "worker/parameter_server/shard_run.h"
#include "worker/parameter_server/shard_state.h"

namespace ringmaster {

// The shards that a host keeps from one generation to the next.
class ShardShelf {
 public:
  virtual ~ShardShelf() = default;
  // Null if nothing is held of it.
  [[nodiscard]] virtual ShardState* Find(int shard) = 0;
  // Makes an empty one, to be loaded.
  //   RESOURCE_EXHAUSTED  there is no memory for it
  [[nodiscard]] virtual absl::StatusOr<ShardState*> Make(
      const ShardDescription& description) = 0;
};

// The numbers of peers of each kind in the loop, in this order.
struct HostPeers {
  int workers = 0;
  int givers = 0;  // of copies
  int takers = 0;
};

class HostRun final : public MessageLoop::Handler {
 public:
  // Everything given outlives it. `peers` are those of the context's loop.
  HostRun(const ShardHostAssignment& assignment, const HostContext& context,
          const HostPeers& peers, ShardShelf& shelf);

  // Tells the others what is needed of them; once, before the first poll.
  //   INVALID_ARGUMENT  the placements want a peer that is not connected
  [[nodiscard]] absl::Status Begin();
  // Returns true if all workers are done and everything is said; `end` then
  // says how.
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] DoneKind end() const { return *end_; }

  // Before a poll: tells the loop and the signs whom this host waits for.
  void ShowWait();
  // The steps of the shards that are loaded, and of primaries that are not
  // loaded yet.
  [[nodiscard]] LeastSteps least_steps() const;
  [[nodiscard]] int64_t resume_step() const { return assignment_.resume_step; }
  [[nodiscard]] int loaded_count() const;
  // As of ShardHost.
  [[nodiscard]] std::vector<int64_t> staleness() const;
  [[nodiscard]] const std::vector<std::unique_ptr<ShardRun>>& shards() const {
    return runs_;
  }

  absl::StatusOr<std::optional<MessageSink>> OnMessage(
      int peer, const ShardMessage& message) override;
  absl::Status OnComplete(int peer, const ShardMessage& message) override;

 private:
  enum class Role { kWorker, kGiver, kTaker };
  struct Peer {
    Role role = Role::kWorker;
    bool is_done = false;
    std::vector<std::byte> description;  // that is being received
    std::vector<int> opened;             // shards that it has announced
  };
  using Sink = absl::StatusOr<std::optional<MessageSink>>;

  [[nodiscard]] Peer& PeerAt(int peer) {
    return peers_[static_cast<size_t>(peer)];
  }
  [[nodiscard]] int RankOf(int peer) const {
    return context_.loop.RankOf(peer);
  }
  // The peer of `rank` in a role; -1: there is none.
  [[nodiscard]] int FindPeer(int rank, Role role) const;
  [[nodiscard]] const ShardPlacement& PlacementOf(int shard) const;
  struct Awaited {
    int rank = -1;  // -1: nobody
    // Others wait because of it; else it is only the next to be heard of.
    bool holds_up = false;
  };
  // `for_copies`: AwaitedForCopies.
  [[nodiscard]] Awaited FindAwaited(int for_copies) const;
  // The worker that has pushed least, and whether others have pushed more.
  [[nodiscard]] Awaited SlowestWorker() const;
  // The rank that has to give or take a copy before pushes are taken; -1: none.
  [[nodiscard]] int AwaitedForCopies() const;
  // Once all workers are done: the rank that has not said or taken its last;
  // -1: none.
  [[nodiscard]] int AwaitedAtTheEnd() const;
  // The rank that gives `taker` its copy of a shard; -1: rank 0 of the workers
  // does.
  [[nodiscard]] int GiverOf(int shard, int taker) const;
  [[nodiscard]] absl::Status BeginShard(ShardRun& run);

  // FAILED_PRECONDITION: not for this host, or not from such a peer.
  [[nodiscard]] absl::StatusOr<ShardRun*> RunFor(int peer,
                                                 const ShardMessage& message);
  [[nodiscard]] absl::Status CheckOpened(int peer, const ShardMessage& message);
  [[nodiscard]] absl::Status Misplaced(const ShardMessage& message) const;
  [[nodiscard]] Sink BeginDescription(int peer, const ShardMessage& message);
  [[nodiscard]] absl::Status Described(int peer, ShardRun& run);
  [[nodiscard]] Sink BeginLoad(ShardRun& run, const ShardMessage& message);
  [[nodiscard]] absl::Status Loaded(ShardRun& run, const ShardMessage& message);
  [[nodiscard]] Sink BeginOfWorker(int peer, ShardRun& run,
                                   const ShardMessage& message);
  [[nodiscard]] absl::Status OfWorker(int peer, ShardRun& run,
                                      const ShardMessage& message);
  // Gives a taker what is held of a shard.
  void Give(int peer, ShardRun& run);
  [[nodiscard]] absl::Status Done(int peer, const ShardMessage& message);

  const ShardHostAssignment& assignment_;
  const HostContext& context_;
  ShardShelf& shelf_;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<ShardRun>> runs_;
  std::vector<ShardRun*> run_of_shard_;
  std::vector<int64_t> pushes_;  // by worker's rank, that have been taken
  int workers_left_ = 0;
  std::optional<DoneKind> end_;  // of the first worker that is done
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_HOST_RUN_H_
