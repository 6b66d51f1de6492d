// Ledger: what really happened to a job in a simulated cluster, seen from above,
// and the invariants that it is checked against as it happens.
//
// It knows what no part of the cluster knows: every rank's position at every
// moment, every durable record, which worker a fault has touched. The first
// violation is kept. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_LEDGER_H_
#define RINGMASTER_TESTS_SIMULATOR_LEDGER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/state.h"
#include "tests/simulator/fault_log.h"
#include "tests/simulator/invariant.h"
#include "tests/simulator/shape.h"

namespace ringmaster::simulator {

inline constexpr int kGlobalBatch = 16;
// The most generations that may begin after one step, and the most innocent workers
// that may be evicted there because somebody else fails without a word.
inline constexpr int kMostAttempts = 40;
inline constexpr int kMostInnocents = 1;

// A rank's position in training; the parameters are a hash of all that was
// folded into them.
struct Position {
  int applied = 0;
  int complete = 0;
  // The generation in which `complete` was reached, and what was reduced.
  int complete_generation = 0;
  uint64_t reduced = 0;
  uint64_t hash = 0;
};

class Ledger {
 public:
  // All must outlive it.
  Ledger(uint64_t seed, const Shape& shape, const JobShape& job,
         const FaultLog& faults);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // ---- The rule of the undisturbed run.

  // Sum of the hashes of samples `first` to `last` - 1 of the global batch of
  // `step`.
  [[nodiscard]] uint64_t SamplesOf(int step, int first, int last) const;
  // The parameters after `step`, and one step later if `reduced` is applied.
  [[nodiscard]] uint64_t HashAfter(int step) const { return hashes_[step]; }
  [[nodiscard]] static uint64_t Fold(uint64_t hash, int step, uint64_t reduced);

  // ---- What the coordinator does.

  // A generation's record is handed to the journal. `has_survivor`: some live
  // member that the coordinator still counts on holds steps, and tells the truth.
  void OnFormation(const coordinator::GenerationFormedRecord& record,
                   bool has_survivor);
  void OnDurable(const coordinator::JournalRecord& record);
  // Returns true if a process at `position` holds the last committed step, of
  // this lineage.
  bool HoldsNewest(const Position& position) const;
  // Slots and incarnations of the newest durable generation.
  std::vector<std::pair<int, uint64_t>> NewestMembers() const;
  // A coordinator came back and believes this.
  void OnRecovered(int64_t last_generation);
  // `job` is as the coordinator knows it.
  void OnAssignment(const coordinator::SendAssignment& assignment,
                    const coordinator::Job& job);
  void OnMemberLost(const v1::Event& event, int64_t now, bool is_alive);
  // What members have said of their steps does not fit together: the coordinator
  // gives up what all in `slots` have said; -1: what itself knew.
  void OnContradiction(const std::vector<int>& slots, std::string_view text);
  // The job has failed, for a reason that it may fail for.
  void OnFailedRightly(const coordinator::JobEndedRecord& record) {
    end_ = record;
  }

  // ---- What workers do. `life` tells the lives of one worker apart.

  void OnPrepare(int slot, uint32_t life, int generation, int rank,
                 int world_size);
  // ResumeAt found neither position.
  void OnResumeRefused(int slot, int generation, int resume_step,
                       const Position& position);
  void OnStateHeld(int generation, int rank, int step);
  // It has read the checkpoint of that step.
  void OnLoaded(int generation, int step);
  // Nobody needs that rank for a step: it only gives what it holds.
  void OnUnneeded(int generation, int rank);
  // A worker goes on after `step`, which parameter servers have made; no worker
  // may have heard of it.
  void OnPulled(int generation, int step, int64_t now);
  // A checkpoint of that step is complete.
  void OnSaved(int step) { saved_step_ = step; }
  [[nodiscard]] bool IsSaved() const { return saved_step_ == best_step_; }
  // The newest checkpoint; 0: there is none.
  [[nodiscard]] int saved_step() const { return saved_step_; }
  void OnFrameTaken(int slot, int frame_generation, int own_generation);
  void OnComplete(int generation, int rank, int step);
  // `position` is the one after the update; `run_generation`: 0 if the step was
  // settled on resuming.
  void OnApply(int slot, int run_generation, const Position& position,
               int64_t now);

  // ---- Holders of shards.

  // Two members of the newest generation hold each shard as of the last
  // committed step.
  void OnAllTwice() { lost_holders_ = 0; }
  // The process has ended with all that it held, or the coordinator has given it
  // up.
  void OnHolderLost(int slot);

  // ---- Faults.

  // A worker of a bad host failed by itself while it trained.
  void OnOwnFailure() { ++own_failures_; }
  // How many did since the last committed step.
  int own_failures() const { return own_failures_; }
  // The worker in that slot has said another step than the one that it is at. What
  // follows for itself from that is no violation.
  void OnStepLie(int slot) {
    step_liar_ = slot;
    may_know_of_lie_ = true;
  }
  // -1: nobody did.
  int step_liar() const { return step_liar_; }

  void Fail(Invariant invariant, std::string text);

  const std::optional<Violation>& violation() const { return violation_; }
  int64_t last_commit() const { return last_commit_; }
  int commits() const { return commits_; }
  int best_step() const { return best_step_; }
  int64_t newest_durable() const { return newest_durable_; }
  int rollbacks() const { return rollbacks_; }
  int suspensions() const { return suspensions_; }
  // Nanoseconds without a commit, for each generation that followed another.
  const std::vector<int64_t>& interruptions() const { return interruptions_; }
  const std::optional<coordinator::JobEndedRecord>& end() const { return end_; }

 private:
  struct Generation {
    bool is_durable = false;
    bool is_told = false;
    int lineage = 0;
    int resume_step = 0;
    // Somebody may have said another step than its own before.
    bool may_follow_lie = false;
    int size = 0;
    std::array<int, kWorkers> slots = {};          // by rank
    std::array<uint64_t, kWorkers> lives = {};     // incarnations, by rank
    std::array<int, kWorkers> prepared_slot = {};  // by rank; -1: nobody yet
    std::array<int, kWorkers> complete = {};       // by rank
    bool has_committed = false;
  };

  Generation& At(int64_t generation);
  void RollBack(const coordinator::GenerationFormedRecord& record);
  // The steps that the last rollback gave up are back after all.
  void TakeBack();
  [[nodiscard]] bool IsLiarsSecret(int64_t step) const;
  // Nobody but a liar held the steps after `step`.
  void GiveUpAfter(int64_t step);
  void CheckUnfit(const coordinator::GenerationFormedRecord& record);
  void CheckMembers(const coordinator::GenerationFormedRecord& record);
  void CheckCommit(int slot, int run_generation, const Position& position);
  void CheckEnd(const coordinator::JobEndedRecord& record);

  const uint64_t seed_;
  const Shape& shape_;
  const JobShape& job_;
  const FaultLog& faults_;
  std::vector<uint64_t> hashes_;
  std::optional<Violation> violation_;

  std::vector<Generation> generations_;
  // What the last rollback gave up: as long as nobody was told of its generation,
  // somebody may come back with it.
  struct GivenUp {
    int64_t generation = 0;
    int lineage = 0;
    std::vector<int> committed_in;
    int best_step = 0;
    int saved_step = 0;
    uint32_t lost_holders = 0;
  };
  std::optional<GivenUp> given_up_;
  int64_t newest_durable_ = 0;
  int64_t newest_told_ = 0;
  int lineage_ = 0;
  int rollbacks_ = 0;
  int suspensions_ = 0;
  // By step, in this lineage; 0: not committed.
  std::vector<int> committed_in_;
  int best_step_ = 0;
  uint32_t applied_by_ = 0;  // by slot: the best step
  int saved_step_ = 0;
  int commits_ = 0;
  int64_t last_commit_ = 0;
  std::vector<int64_t> interruptions_;
  std::array<std::pair<uint32_t, int>, kWorkers> prepared_ = {};
  uint32_t lost_holders_ = ~0u;  // by slot, since all shards were there twice
  int own_failures_ = 0;
  // Since the last committed step: those who went for another, and the
  // generations that were formed.
  int innocents_ = 0;
  int attempts_ = 0;
  int step_liar_ = -1;
  // What the coordinator knows of the newest generation may be a lie.
  bool may_know_of_lie_ = false;
  // Until when durable records leave each host out, where nobody could prepare.
  std::map<std::string, absl::Time> unfit_until_;
  std::optional<coordinator::JobEndedRecord> end_;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_LEDGER_H_
