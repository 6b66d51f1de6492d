// JobRunner runs a job's program in one process of the pool, generation after
// generation: it trains (job_trainer.h), measures (worker/bench), runs a
// command (worker/external), or serves shards
// (worker/parameter_server/shard_runner.h). The agent drives it, and calls it
// its trainer. The rest is about training.
//
// It owns what survives a change of generation: the data set, the plan, the
// arenas (parameters, gradients, moments) and the position in training. One
// generation is one Prepare and one Run. Two numbers settle what a rank may do
// after a fault: `applied_step`, the last optimizer update made, and
// `complete_step`, the last step of which every reduced bucket is held
// (applied_step or applied_step + 1; and with applied_step 0, the step of a
// checkpoint whose parameters are held).
//
// Thread-safety: Prepare and Run from one thread at a time (the agent's
// TrainerThread); Abort, RequestStop, RequestDrain, progress and trace from any
// thread.
#ifndef RINGMASTER_WORKER_MEMBER_JOB_RUNNER_H_
#define RINGMASTER_WORKER_MEMBER_JOB_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/parameter_server/shard_placement.h"
#include "common/plan/collective_costs.h"
#include "common/plan/mesh.h"
#include "common/protocol/no_figures.h"
#include "common/trace/trace.h"
#include "common/transport/frame.h"
#include "ringmaster/v1/data_identity.pb.h"
#include "ringmaster/v1/figures.pb.h"
#include "ringmaster/v1/notice.pb.h"
#include "worker/collective/algorithm.h"

namespace ringmaster {

namespace v1 {
class JobSpec;
}  // namespace v1

struct AllReduceBenchFigures;

// A rank's place in a generation.
struct RankAssignment {
  int64_t generation = 0;
  std::string job_id;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        // index among the ranks on the same host
  int local_world_size = 1;  // ranks on the same host
  int data_index = 0;        // equal to rank while the mesh is {n, 1, 1}
  // Where others reach this rank: HOST:PORT.
  std::string own_address = {};
  std::vector<PeerAddress> peers;  // those that this rank is connected with
  // The number of members on each host; the members of a host have consecutive
  // ranks.
  std::vector<int> ranks_per_host;
  std::string secret;
  int64_t resume_step = 0;
  // The rank that newcomers copy the training state from, before the first
  // step; -1: no member needs it.
  int state_source_rank = -1;
  // This rank is a newcomer: any state that it holds is replaced.
  bool is_newcomer = false;
  // The generation makes no step: once newcomers hold the state or, if there are
  // none, a checkpoint of it is written, all ranks pause.
  bool makes_no_step = false;
  // With fewer members commands go on, but are not started.
  int least_workers = 0;
  absl::Duration connect_timeout = absl::Seconds(30);
  absl::Duration collective_timeout = absl::Seconds(60);
  // Frames between hosts carry this; the same on all ranks.
  FrameIntegrity integrity = FrameIntegrity::kNone;
  // The costs that algorithms are chosen by; the same on all ranks.
  MachineCosts costs = {};
  // The holders of the parameters' shards; without hosts if gradients are
  // all-reduced. A rank of world_size or more holds shards only: it is a
  // parameter server.
  ShardPlacements shard_placements = {};
};

// The values that ranks must agree on before step 1.
struct PlanAgreement {
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  std::string summary;  // the plan and the data in words, one line
  v1::DataIdentity data = {};
};

// The parts of a step's time, as measured; see ringmaster.v1.PhaseDurations.
struct PhaseFigures {
  absl::Duration data_wait;
  absl::Duration forward;
  absl::Duration backward;
  absl::Duration communication_wait;
  absl::Duration optimizer;
  absl::Duration snapshot;
};

// Sets the staleness in the totals of a holder of shards, if workers run ahead
// of each other; see ShardHost::staleness.
inline void SetStaleness(const std::vector<int64_t>& counts,
                         v1::RankFigures& totals) {
  totals.mutable_staleness()->Assign(counts.begin(), counts.end());
}

enum class TrainPhase {
  kIdle,
  kPrepare,
  kConnect,
  kStep,
  kEvaluate,
  kHalted,
  kTransfer,    // the state is copied to newcomers, or to and from servers
  kCheckpoint,  // one is read, or waited for
  kMeasure,     // of a benchmark
  kCommand,     // one of the job's runs
};

struct TrainProgress {
  TrainPhase phase = TrainPhase::kIdle;
  int64_t generation = 0;
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  int64_t collective_sequence = 0;
  int waiting_for_rank = -1;
  int64_t disk_bytes = 0;  // of checkpoints, since the process began
  // The shards of the job's parameters that the worker holds; after Prepare, as
  // of the resume step, whether Prepare failed or not.
  std::vector<HeldShard> held_shards = {};
  // A command goes on with those of however many members are left, or has ended
  // as they may.
  bool can_go_on = false;
  v1::TrainingFigures figures = NoFigures();
  // This rank's figures since its generation began, added up.
  v1::RankFigures totals = {};
  // The figures of a benchmark's rank 0, once it has begun to measure.
  std::shared_ptr<const AllReduceBenchFigures> bench = nullptr;
};

// The end of a generation on this rank.
struct RunOutcome {
  enum class Kind {
    kFinished,  // all steps done, or as many as the job's early stop has it make
    kStopped,  // ended at the step all ranks agreed on, because some rank asked
               // to stop
    kDrained,  // paused at the step all ranks agreed on, because some rank
               // wants to leave
    kInterrupted,  // Abort was called
    kPeerFailed,   // communication with `peer_rank` failed; `status` says how.
                   // -1: it was cut off and cannot tell by whom
    kFailed,  // an error of this rank's own, or one that all ranks see alike;
              // `status` carries the exit code
  };
  Kind kind = Kind::kFailed;
  absl::Status status;
  int peer_rank = -1;
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  uint64_t parameters_hash = 0;  // kFinished and kStopped
  bool is_unreached = false;     // kPeerFailed: no connection with it was made
  // kPeerFailed: no communication failed, but the peer held another state, and
  // both have given theirs up.
  bool holds_other_state = false;
};

class JobRunner {
 public:
  virtual ~JobRunner() = default;

  // Prepares a generation of a job: on its first generation here reads the
  // data, builds the plan and initializes the parameters; on a later one keeps
  // them and settles `resume_step`: applies the step it holds complete, if that
  // is the resume step, or discards it; a newcomer's steps are forgotten, and
  // Run begins with taking over the state. Errors carry the process's exit code
  // (common/status/exit_code.h).
  //   FAILED_PRECONDITION  the resume step is neither the applied nor the
  //   complete one
  [[nodiscard]] virtual absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) = 0;

  // Connects to the neighbours and trains until one of the outcomes. Requires
  // Prepare of the same generation.
  [[nodiscard]] virtual RunOutcome Run() = 0;

  // Interrupts Prepare or Run of `generation` (and nothing later): a wait
  // within milliseconds, the reading of a file after a piece of it, the
  // computing of a model after the micro-batch, batch of an evaluation or token
  // under way. In Prepare that is the reading of data; what follows it, the
  // initialization of the parameters, is short and is finished.
  virtual void Abort(int64_t generation, std::string_view why) = 0;
  // Puts the wish into the next commit record of the generation prepared last.
  virtual void RequestStop() = 0;
  virtual void RequestDrain() = 0;
  // As RequestDrain, a moment later, because this worker is to leave: if all are
  // by then, they stop rather than pause.
  virtual void RequestLeave() { RequestDrain(); }
  // As RequestDrain, because `let_go_count` members take no part in the next
  // generation, this worker among them if `is_let_go`: what they alone hold goes to
  // the others before they pause. Each is told by itself, so all wait a moment until as
  // many know it.
  virtual void RequestPause(bool /*is_let_go*/, int /*let_go_count*/) {
    RequestDrain();
  }

  // Sets the callback for notices, which runs on the training thread; before
  // the first Prepare. The callee must not block.
  virtual void SetNoticeCallback(
      std::function<void(const v1::Notice&)> on_notice) = 0;

  // Sets the callback that is called, on the training thread, when the phase
  // changes in a way that no outcome tells (to connecting, transfer,
  // checkpoint, steps, measuring) and when the first step of a generation was
  // applied; before the first Prepare. The callee must not block. It is not
  // called for evaluations: they may follow every step.
  virtual void SetAdvanceCallback(
      std::function<void(int64_t generation)> on_advance) = 0;

  // Drops the job's state: the worker goes back to the pool. Not while Run is
  // under way.
  virtual void Release() = 0;

  [[nodiscard]] virtual TrainProgress progress() const = 0;
  // Counters of all that was done since the process began.
  [[nodiscard]] virtual std::vector<MetricSample> metrics() const { return {}; }
  [[nodiscard]] virtual const Trace& trace() const = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_JOB_RUNNER_H_
