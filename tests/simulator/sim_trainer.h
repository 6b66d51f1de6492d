// SimTrainer: the rule of worker/train as a small state machine.
//
// A step is: compute; reduce around the ring (the step is complete once every
// rank's part is in it); a commit record to every rank; the update once all
// records are there. Settles a resume step, copies the state to newcomers,
// refuses frames of other generations. The parameters are a hash of all that
// was folded into them, so a lost, doubled or divergent step shows.
// With parameter servers, workers push their parts to all who hold shards and
// pull the sum from each; a server has the parameters as of the newest step and
// of the one before, and copies the shards that it is to hold from the members
// that the assignment names. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_SIM_TRAINER_H_
#define RINGMASTER_TESTS_SIMULATOR_SIM_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulator/assignment_payload.h"
#include "tests/simulator/context.h"
#include "tests/simulator/peer_links.h"
#include "worker/agent/core/agent_event.h"

namespace ringmaster::simulator {

// The content of a beat.
struct SimProgress {
  int generation = 0;
  int applied = 0;
  bool is_connecting = false;
  bool is_copying = false;
  int64_t collective_sequence = 0;
  int waiting_for_rank = -1;
  int64_t step_time = 0;
};

class SimTrainer {
 public:
  // `post` tells the agent of the worker in `slot`.
  SimTrainer(Context& context, PeerLinks& links, int slot,
             std::function<void(agent::Event)> post)
      : context_(context), links_(links), slot_(slot), post_(std::move(post)) {}

  // The process is new: nothing is held.
  void Restart(uint32_t life);
  // The process is gone; its peers see their connections closed unless
  // `is_silent`.
  void Die(bool is_silent);

  void Prepare(const agent::AssignmentPayload& payload);
  void Run(int generation);
  void Abort(int generation);
  void RequestStop() { wants_stop_ = true; }
  void RequestDrain() { wants_drain_ = true; }
  void RequestLeave() { wants_drain_ = wants_leave_ = true; }
  void Release();

  void OnFrame(int from, const Frame& frame);
  // Handles the event kTrainerTimer.
  void OnTimer(uint32_t version, uint8_t detail);
  // Its connection to that worker breaks.
  void OnLinkFailed(int peer, v1::LinkFailure failure);

  // Computing takes ten times as long until then.
  void SlowDown(int64_t until) { slow_until_ = until; }

  SimProgress progress() const;
  const Position& position() const { return position_; }
  // Returns the shards that it holds, if the parameters are in shards.
  std::vector<HeldShard> shards() const;
  // The job of the last assignment; 0 before.
  int job_index() const { return job_; }
  // The payload of the last assignment; null before.
  const agent::AssignmentPayload& assignment() const { return assignment_; }

 private:
  enum class Stage {
    kIdle,
    kPreparing,
    kPrepared,
    kConnecting,
    kPulling,  // from parameter servers
    kServing,  // as one
    kCopying,
    kComputing,
    kReducing,
    kCommitting,
    kOver,
  };
  enum Timer : uint8_t {
    kPrepared,
    kComputed,
    kCopied,
    kAborted,
    kPatience,
    kResend,
    kSaved,
    kLoaded,
  };

  Ledger& ledger() const { return context_.ledgers[static_cast<size_t>(job_)]; }
  const JobShape& job() const {
    return context_.shape.jobs[static_cast<size_t>(job_)];
  }
  bool IsRunning() const {
    return stage_ >= Stage::kConnecting && stage_ <= Stage::kCommitting;
  }
  int rank() const { return assignment_.rank; }
  int world_size() const { return assignment_.world_size; }
  // The neighbours in the ring: what is received from, what is sent to.
  int prev_rank() const { return (rank() + world_size() - 1) % world_size(); }
  int next_rank() const { return (rank() + 1) % world_size(); }
  int generation() const { return assignment_.generation; }
  bool IsLastRank() const { return rank() == world_size() - 1; }
  // Members and shards of a job with parameter servers (sim_trainer_shards.cc).
  bool IsServer() const { return rank() >= world_size(); }
  bool HasServers() const {
    return static_cast<int>(assignment_.slots.size()) > world_size();
  }
  int SlotAt(int rank) const {
    return assignment_.slots[static_cast<size_t>(rank)];
  }
  // -1: none.
  int RankOfSlot(int slot) const;
  void StartTimer(Timer timer, int64_t delay);
  void Send(int to, FrameKind kind, int step = 0, uint64_t value = 0);
  void SendNext(FrameKind kind, int step = 0, uint64_t value = 0) {
    Send(assignment_.next_slot, kind, step, value);
  }

  bool HasShard(int shard) const;
  const ShardPlacement& PlacementOf(int shard) const {
    return (*assignment_.placements)[static_cast<size_t>(shard)];
  }
  // Whether all holders have what they are to hold, as far as is known here.
  bool AreAllPlaced() const;
  // Whether the assignment has it hold that shard, or give it to others too.
  bool IsPlacedHere(const ShardPlacement& shard, bool or_source) const;
  void PrepareShards();
  void FinishPreparing(bool is_aborted);
  // Why a worker of a bad host cannot go on.
  absl::Status OwnFailure() const;
  [[nodiscard]] bool ResumeAt(int step);
  void CheckConnected();
  void TakeState(const Frame& frame);
  void BeginStep();
  void TryReduce();
  void MakeComplete(uint64_t total);
  void TakeRecord(const Frame& frame);
  void TryApply();
  // The complete step becomes the applied one; in a run, or on resuming (0).
  void Apply(int run_generation);
  void AfterStep();
  // The generation makes no step.
  void EndWithoutStep();
  // Where the job begins from a checkpoint, returns true: all ranks read it first.
  [[nodiscard]] bool BeginsFromFiles();
  void AdoptLoaded();
  // Rank 0 has written a checkpoint of the applied step, if the job keeps them.
  void Save();
  void FailPeer(int peer_rank, v1::LinkFailure failure);
  void EndRun(agent::RunEnd end, int peer_rank = -1,
              v1::LinkFailure failure = v1::LINK_FAILURE_UNSPECIFIED);
  // `end`: how the run has ended, where that was agreed.
  void CloseConnections(bool is_clean,
                        agent::RunEnd end = agent::RunEnd::kInterrupted);

  // As a worker of a job with parameter servers.
  [[nodiscard]] bool ResumeBesideServers(int step);
  void Pull();
  void Push();
  void TakePulled(const Frame& frame);
  void TakeUpdated(const Frame& frame);
  // As a server.
  [[nodiscard]] bool ResumeAsServer(int step);
  void BeginServing();
  void RequestCopies();
  void TakeCopy(const Frame& frame);
  void AnswerPull(int from);
  void TakePush(const Frame& frame);
  void MakeUpdate(int step);
  void TakeDone(const Frame& frame);
  void OnFrameAsServer(int from, const Frame& frame);
  // The rank waited for while there is nothing else to do; -1: nobody.
  int AwaitedRank() const;

  Context& context_;
  PeerLinks& links_;
  const int slot_;
  const std::function<void(agent::Event)> post_;

  uint32_t life_ = 0;
  // The version of the timers that still count.
  uint32_t version_ = 0;
  Stage stage_ = Stage::kIdle;
  int job_ = 0;
  agent::AssignmentPayload assignment_;
  bool has_state_ = false;
  Position position_;
  // `complete` is a checkpoint's step, which the first step applies.
  bool is_loaded_ = false;
  // Held when the run under way began to make steps, if it did: all that the
  // assignment says; until then what was held before.
  bool has_placed_shards_ = false;
  std::vector<HeldShard> shards_;
  bool is_aborted_ = false;
  bool is_deaf_ = false;  // aborted, and takes no frame any more
  bool wants_stop_ = false;
  bool wants_drain_ = false;
  bool wants_leave_ = false;
  int64_t slow_until_ = 0;
  int64_t collective_sequence_ = 0;
  int64_t last_progress_ = 0;
  bool is_first_step_ = false;
  bool is_alone_ = false;  // only with the planted bug kEvictedGoesOn

  // Connecting.
  int early_connect_generation_ = 0;  // came before the run
  int early_connect_from_ = -1;
  bool has_prev_ = false;
  bool has_next_ = false;
  int closed_rank_ = -1;          // its peer has closed the connection already
  bool has_early_state_ = false;  // came before the next rank accepted
  Frame early_state_;
  // The step under way.
  int partial_step_ = 0;
  uint64_t partial_ = 0;
  uint32_t records_ = 0;  // ranks whose record of the step is here
  bool stop_agreed_ = false;
  bool drain_agreed_ = false;
  uint32_t leavers_ = 0;  // ranks that are to leave
  int saved_step_ = 0;    // of the last checkpoint, by this process
  // With parameter servers: what a worker has pushed, which ranks have answered,
  // and with what.
  uint64_t contribution_ = 0;
  uint32_t answered_ = 0;
  uint64_t updated_ = 0;
  // For a server: the parameters one step before, the sum of the newest step,
  // the ranks that it needs copies from, and by worker rank what was pushed and
  // who is done.
  uint64_t hash_before_ = 0;
  uint64_t newest_sum_ = 0;
  uint32_t missing_ = 0;
  std::vector<int> pushed_;
  std::vector<uint64_t> contributions_;
  uint32_t done_ = 0;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_SIM_TRAINER_H_
