// PartSettler brings ranks whose moments are sharded to where the others are,
// before the first step of a generation.
//
// Ranks that a fault interrupted are before, in or after the update of the
// resume step, and the moments are divided as their last generation had them.
// First those that have not updated do so, then all get the parameters of the
// others' parts, and then the moments of the parts that each is to have. An
// element comes from the lowest rank that has it, often another one than before;
// if nobody has it, the state is lost, and all give it up
// (docs/decisions/0066).
// Guarantees: until Keep a rank has what it had at the beginning, and more, so
// an interrupted settling is made again by the next generation.
// Thread-safety: on the training thread, on every rank at the same point.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_SETTLE_PARTS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_SETTLE_PARTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/topology.h"
#include "worker/collective/communicator.h"
#include "worker/train/state/broadcast_pieces.h"
#include "worker/train/state/moment_parts.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

// Returns true if `status` says that all ranks have given their state up.
[[nodiscard]] bool IsStateGivenUp(const absl::Status& status);

class PartSettler {
 public:
  struct Options {
    const Topology& ranks;  // of the generation
    bool is_newcomer = false;
    int64_t resume_step = 0;  // above 0
    BroadcastOptions broadcast = {};
  };
  // All references must outlive it.
  PartSettler(TrainingState& state, Communicator& communicator,
              const Options& options, const Clock& clock);

  // Makes the update of the resume step, where it was not made, on all ranks but
  // newcomers.
  //   UNAVAILABLE          nobody has some part: this rank has given its state
  //                        up, like all others (IsStateGivenUp)
  //   FAILED_PRECONDITION  a rank is at another step
  // and the errors of Communicator::Wait.
  [[nodiscard]] absl::Status FinishUpdates();

  // Gives each rank, newcomers too, the moments of its parts.
  [[nodiscard]] absl::Status MoveMoments();

  // Compares the copies of each part.
  //   FAILED_PRECONDITION  this rank was sent another copy than the right one
  //   UNAVAILABLE          another was; or nobody can tell which is right, and
  //                        this rank has given its state up, like all others
  [[nodiscard]] absl::Status CompareMoments();

  // This rank has its parts, and is at the resume step. Waits until that is so
  // for all ranks, and keeps no other parts.
  [[nodiscard]] absl::Status Keep();

 private:
  enum class Phase : int64_t { kNewcomer, kBefore, kUpdated, kApplied };
  struct Standing;

  [[nodiscard]] absl::StatusOr<std::vector<int64_t>> Gather(
      std::span<const int64_t> own);
  [[nodiscard]] absl::StatusOr<std::vector<Standing>> GatherStandings();
  [[nodiscard]] Phase OwnPhase() const;
  [[nodiscard]] std::vector<MomentPart> OwnParts() const;
  [[nodiscard]] absl::Status AwaitAll();
  [[nodiscard]] absl::Status PlanMoves(const std::vector<Standing>& standings);
  [[nodiscard]] absl::Status GatherParameters(
      const std::vector<Standing>& standings);
  [[nodiscard]] absl::Status GiveUp(std::string_view why);
  [[nodiscard]] absl::Status LeaveOut(int odd_rank, int64_t part);
  // "no rank has WHAT, since ...".
  [[nodiscard]] std::string Lost(std::string_view what) const;
  [[nodiscard]] absl::Status Move(absl::Span<const Transfer> transfers,
                                  const Possession& own,
                                  absl::Span<float> arena);

  TrainingState& state_;
  Communicator& communicator_;
  const Options options_;
  const Clock& clock_;
  Possession own_;                   // of moments
  std::vector<Transfer> transfers_;  // likewise
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_SETTLE_PARTS_H_
