#include "worker/train/generation_run.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/plan/partition.h"
#include "common/status/status_macros.h"
#include "worker/train/evaluation.h"

namespace ringmaster {
namespace {

// Starts the reduction of each bucket whose last gradient was just written.
class BucketStarter final : public GradientObserver {
 public:
  BucketStarter(const Plan& plan, ParameterSync& sync, Clock& clock)
      : plan_(plan), sync_(sync), clock_(clock) {}

  void OnForwardDone() override { forward_done = clock_.Now(); }
  void OnTensorDone(int tensor_index) override {
    for (size_t i = plan_.BucketsCompletedBy(tensor_index).size(); i > 0; --i)
      sync_.BucketReady(next_bucket_++);
  }

  MonotonicTime forward_done;

 private:
  const Plan& plan_;
  ParameterSync& sync_;
  Clock& clock_;
  int next_bucket_ = 0;
};

uint64_t SumOfSampleHashes(absl::Span<const int64_t> ids) {
  uint64_t sum = 0;
  for (const int64_t id : ids) sum += HashSampleId(id);
  return sum;
}

}  // namespace

GenerationRun::GenerationRun(int64_t generation, absl::Duration wait_timeout,
                             const Parts& parts)
    : wait_timeout_(wait_timeout),
      parts_(parts),
      sync_(generation, wait_timeout, parts.state, parts.communicator,
            parts.clock, parts.trace),
      global_ids_(static_cast<size_t>(parts.state.config().global_batch)) {}

absl::StatusOr<GenerationRun::End> GenerationRun::Run() {
  const ProgramConfig& config = parts_.state.config();
  while (parts_.state.applied_step() < config.steps) {
    const int64_t step = parts_.state.applied_step() + 1;
    ASSIGN_OR_RETURN(const CommitSummary summary, RunStep(step));
    if (parts_.state.skipped_in_a_row() >= kMaxSkippedSteps) {
      return absl::InvalidArgumentError(
          absl::StrCat("the gradient was not finite for ", kMaxSkippedSteps,
                       " steps in a row, up to step ", step,
                       "; lower the learning rate or set clip_norm"));
    }
    const bool is_last = step == config.steps;
    if (summary.stop && !is_last) return End::kStopped;
    if (!is_last && config.evaluate_every > 0 &&
        step % config.evaluate_every == 0) {
      RETURN_IF_ERROR(EvaluateAfter(step));
    }
    if (summary.drain && !is_last) return End::kDrained;
  }
  RETURN_IF_ERROR(EvaluateAfter(config.steps));
  return End::kFinished;
}

absl::StatusOr<CommitSummary> GenerationRun::RunStep(int64_t step) {
  const MonotonicTime begin = parts_.clock.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.step"));
  LocalStep local;
  local.step = step;
  ASSIGN_OR_RETURN(const Batch* batch, NextBatch(step));
  const absl::Duration data_wait = parts_.clock.Now() - begin;
  ForwardBackward(step, *batch, local);

  const int64_t hash_every = parts_.state.config().hash_every;
  local.sample_count = batch->size();
  local.sample_hash = SumOfSampleHashes(batch->sample_ids());
  local.global_sample_hash = GlobalSampleHash(step);
  local.compare_parameters = hash_every > 0 && step % hash_every == 0;
  local.wants_stop = parts_.wishes.stop.load(std::memory_order_relaxed);
  local.wants_drain = parts_.wishes.drain.load(std::memory_order_relaxed);
  absl::StatusOr<CommittedStep> committed = sync_.Commit(local);
  parts_.board.SetSteps(parts_.state.applied_step(),
                        parts_.state.complete_step());
  RETURN_IF_ERROR(committed.status());
  parts_.counters.steps.Increment();
  parts_.counters.samples.Add(batch->size());
  if (!committed->summary.is_finite)
    parts_.counters.skipped_updates.Increment();

  StepFigures figures;
  figures.step = step;
  figures.loss = committed->summary.mean_loss;
  figures.gradient_norm = std::sqrt(committed->summary.norm_squared);
  figures.samples = parts_.state.config().global_batch;
  figures.payload_sent_bytes =
      parts_.communicator.counters().payload_sent_bytes;
  figures.duration = parts_.clock.Now() - begin;
  figures.communication_wait = committed->communication_wait;
  figures.data_wait = data_wait;
  parts_.board.RecordStep(figures);
  return committed->summary;
}

absl::StatusOr<const Batch*> GenerationRun::NextBatch(int64_t step) {
  const MonotonicTime begin = parts_.clock.Now();
  const absl::StatusOr<const Batch*> batch =
      parts_.prefetcher.Next(begin + wait_timeout_);
  if (absl::IsDeadlineExceeded(batch.status())) {
    // No peer's fault, which is what this code means to the caller.
    return absl::ResourceExhaustedError(absl::StrCat(
        "this host gave no data within ", absl::FormatDuration(wait_timeout_),
        ": ", batch.status().message()));
  }
  parts_.trace.Record(
      {"data_wait", "compute", step, -1, 0, begin, begin, parts_.clock.Now()});
  return batch;
}

void GenerationRun::ForwardBackward(int64_t step, const Batch& batch,
                                    LocalStep& local) {
  Model<float>& model = parts_.state.model();
  const int64_t global_targets =
      parts_.state.config().global_batch * parts_.state.targets();
  const MonotonicTime forward = parts_.clock.Now();
  BucketStarter starter(parts_.state.plan(), sync_, parts_.clock);
  local.loss_sum = model.ForwardBackward(
      batch, {.scale = 1.0 / static_cast<double>(global_targets)}, starter);
  const MonotonicTime backward = starter.forward_done;
  parts_.trace.Record(
      {"forward", "compute", step, -1, 0, forward, forward, backward});
  parts_.trace.Record({"backward", "compute", step, -1, 0, backward, backward,
                       parts_.clock.Now()});
}

absl::Status GenerationRun::EvaluateAfter(int64_t step) {
  if (parts_.state.dataset().size(Split::kHeldOut) == 0)
    return absl::OkStatus();
  parts_.board.EnterPhase(TrainPhase::kEvaluate);
  const MonotonicTime begin = parts_.clock.Now();
  ASSIGN_OR_RETURN(const double loss,
                   Evaluate(parts_.state, parts_.communicator, wait_timeout_,
                            parts_.clock, parts_.cancel));
  parts_.trace.Record(
      {"evaluate", "compute", step, -1, 0, begin, begin, parts_.clock.Now()});
  parts_.board.RecordEvaluation(step, loss);
  parts_.board.EnterPhase(TrainPhase::kStep);
  return absl::OkStatus();
}

uint64_t GenerationRun::GlobalSampleHash(int64_t step) {
  const int64_t global_batch = parts_.state.config().global_batch;
  parts_.state.sampler().SamplesOf(step, global_batch, {0, global_batch},
                                   absl::MakeSpan(global_ids_));
  return SumOfSampleHashes(global_ids_);
}

}  // namespace ringmaster
