#include "worker/train/testing/timed_rounds.h"

#include <memory>
#include <utility>

#include "common/clock/clock.h"
#include "common/metrics/metrics.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "common/transport/tcp.h"
#include "worker/member/progress_board.h"
#include "worker/member/train_counters.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/parameter_sync.h"
#include "worker/train/step/generation_run.h"
#include "worker/train/step/prepared_job.h"

namespace ringmaster {
namespace {

// The time of all steps so far in passes and updates.
absl::Duration ComputedSoFar(const ProgressBoard& board) {
  const v1::PhaseDurations phases = board.progress().totals.phases();
  return FromProto(phases.forward()) + FromProto(phases.backward()) +
         FromProto(phases.optimizer());
}

// Stands before another sync, and cuts its steps into rounds.
class RoundSync final : public ParameterSync {
 public:
  RoundSync(ParameterSync& sync, const RoundsControl& control,
            const ProgressBoard& board, Clock& clock)
      : sync_(sync), control_(control), board_(board), clock_(clock) {}

  absl::Status BeginStep() override {
    if (left_ == 0) RETURN_IF_ERROR(StartRound());
    --left_;
    return sync_.BeginStep();
  }
  void BucketReady(int bucket) override { sync_.BucketReady(bucket); }
  absl::StatusOr<CommittedStep> Commit(const LocalStep& local) override {
    ASSIGN_OR_RETURN(CommittedStep committed, sync_.Commit(local));
    round_.loss = committed.summary.mean_loss;
    return committed;
  }
  int64_t payload_sent_bytes() const override {
    return sync_.payload_sent_bytes();
  }
  int64_t theory_bytes_per_step() const override {
    return sync_.theory_bytes_per_step();
  }
  absl::Duration WaitedFor(int rank) const override {
    return sync_.WaitedFor(rank);
  }
  int peer_ranks() const override { return sync_.peer_ranks(); }

  // No round follows: BeginStep has failed on purpose.
  bool is_over() const { return is_over_; }

 private:
  absl::Status StartRound() {
    RETURN_IF_ERROR(control_.await_idle());
    round_.duration =
        round_.steps > 0 ? clock_.Now() - begin_ : absl::ZeroDuration();
    const absl::Duration computed = ComputedSoFar(board_);
    round_.computed = computed - std::exchange(computed_, computed);
    left_ = round_.steps = control_.next(round_);
    is_over_ = left_ <= 0;
    if (is_over_) return absl::CancelledError("no round follows");
    begin_ = clock_.Now();
    return absl::OkStatus();
  }

  ParameterSync& sync_;
  const RoundsControl& control_;
  const ProgressBoard& board_;
  Clock& clock_;
  TimedRound round_;
  absl::Duration computed_;  // before the round
  MonotonicTime begin_;
  int64_t left_ = 0;  // steps of the round
  bool is_over_ = false;
};

RankAssignment OnlyRank() {
  RankAssignment assignment;
  assignment.generation = 1;
  assignment.job_id = "job-1";
  assignment.ranks_per_host = {1};
  assignment.secret = "of nobody else";
  return assignment;
}

}  // namespace

absl::Status TrainInRounds(const v1::TrainProgram& program,
                           Accelerator* accelerator,
                           const RoundsControl& control) {
  Clock& clock = Clock::Real();
  Trace trace;
  MetricRegistry metrics;
  TrainCounters counters(metrics);
  ProgressBoard board;
  const Wishes wishes;
  const CancelToken cancel;
  const RankAssignment rank = OnlyRank();
  if (accelerator != nullptr) RETURN_IF_ERROR(accelerator->Enter());
  ASSIGN_OR_RETURN(const std::unique_ptr<PreparedJob> job,
                   PreparedJob::Create(program, rank, cancel,
                                       {.accelerator = accelerator,
                                        .board = board,
                                        .on_notice = [](const v1::Notice&) {},
                                        .clock = clock}));
  RETURN_IF_ERROR(job->state().ResumeAt(0));
  RETURN_IF_ERROR(job->ReserveBatch(rank));
  RETURN_IF_ERROR(job->StartPrefetcher(rank, 1));
  ASSIGN_OR_RETURN(const Listener listener, Listener::Listen("127.0.0.1:0"));
  ASSIGN_OR_RETURN(const std::unique_ptr<GradientExchange> exchange,
                   GradientExchange::Connect({.assignment = rank,
                                              .state = job->state(),
                                              .listener = listener,
                                              .cancel = cancel,
                                              .board = board,
                                              .counters = counters,
                                              .clock = clock,
                                              .trace = trace}));
  RETURN_IF_ERROR(job->state().SendToDevice());
  RETURN_IF_ERROR(job->files().BeginGeneration(
      rank.generation, 0, exchange->communicator(), rank.collective_timeout));
  RoundSync sync(exchange->sync(), control, board, clock);
  GenerationRun run(
      rank.collective_timeout,
      {job->state(), exchange->communicator(), sync, job->prefetcher(), board,
       wishes, cancel, clock, trace, counters, job->files()});
  const absl::Status ended = run.Run().status();
  if (sync.is_over()) return absl::OkStatus();
  RETURN_IF_ERROR(ended);
  return absl::OutOfRangeError("train.steps: too few for these rounds");
}

}  // namespace ringmaster
