#include "worker/member/progress_board.h"

#include <algorithm>
#include <utility>

#include "common/protocol/proto_time.h"

namespace ringmaster {
namespace {

constexpr double kNewWeight = 0.1;

// Moves `average` towards `value`, or sets it if it is the first.
void Follow(bool has_average, absl::Duration value, absl::Duration& average) {
  average = has_average ? average + kNewWeight * (value - average) : value;
}

void Follow(bool has_average, const PhaseFigures& value,
            PhaseFigures& average) {
  Follow(has_average, value.data_wait, average.data_wait);
  Follow(has_average, value.forward, average.forward);
  Follow(has_average, value.backward, average.backward);
  Follow(has_average, value.communication_wait, average.communication_wait);
  Follow(has_average, value.optimizer, average.optimizer);
  Follow(has_average, value.snapshot, average.snapshot);
}

void Add(const PhaseFigures& value, PhaseFigures& sum) {
  sum.data_wait += value.data_wait;
  sum.forward += value.forward;
  sum.backward += value.backward;
  sum.communication_wait += value.communication_wait;
  sum.optimizer += value.optimizer;
  sum.snapshot += value.snapshot;
}

v1::PhaseDurations ToMessage(const PhaseFigures& phases) {
  v1::PhaseDurations message;
  *message.mutable_data_wait() = ToProto(phases.data_wait);
  *message.mutable_forward() = ToProto(phases.forward);
  *message.mutable_backward() = ToProto(phases.backward);
  *message.mutable_communication_wait() = ToProto(phases.communication_wait);
  *message.mutable_optimizer() = ToProto(phases.optimizer);
  *message.mutable_snapshot() = ToProto(phases.snapshot);
  return message;
}

// Prepare and halt have messages of their own; evaluations are not reported.
bool IsTold(TrainPhase before, TrainPhase after) {
  return before != after && before != TrainPhase::kEvaluate &&
         (after == TrainPhase::kConnect || after == TrainPhase::kTransfer ||
          after == TrainPhase::kCheckpoint || after == TrainPhase::kStep ||
          after == TrainPhase::kMeasure || after == TrainPhase::kCommand);
}

}  // namespace

void ProgressBoard::EnterPhase(TrainPhase phase) {
  int64_t generation = 0;
  {
    MutexLock lock(mutex_);
    if (IsTold(std::exchange(progress_.phase, phase), phase))
      generation = progress_.generation;
  }
  if (generation != 0) on_advance_(generation);
}

void ProgressBoard::BeginGeneration(int64_t generation, int64_t total_steps,
                                    int64_t gradient_bytes) {
  ForgetPeakMemory();
  MutexLock lock(mutex_);
  progress_.generation = generation;
  progress_.figures.set_total_steps(total_steps);
  progress_.figures.set_awaited_rank(-1);
  progress_.figures.set_awaited_ratio(0);
  progress_.totals.Clear();
  progress_.totals.set_gradient_bytes(gradient_bytes);
  sum_ = {};
  start_ = UsageOfProcess();
  has_rates_ = false;
}

void ProgressBoard::SetAllReduces(absl::Duration predicted,
                                  const std::vector<Algorithm>& algorithms) {
  MutexLock lock(mutex_);
  *progress_.figures.mutable_predicted_all_reduce_duration() =
      ToProto(predicted);
  progress_.figures.clear_all_reduce_algorithms();
  for (const Algorithm algorithm : algorithms) {
    progress_.figures.add_all_reduce_algorithms(
        static_cast<v1::CollectiveAlgorithm>(algorithm));
  }
}

void ProgressBoard::SetSteps(int64_t applied_step, int64_t complete_step) {
  MutexLock lock(mutex_);
  progress_.applied_step = applied_step;
  progress_.complete_step = complete_step;
  progress_.figures.set_step(applied_step);
}

void ProgressBoard::RecordStep(const StepFigures& figures) {
  int64_t generation = 0;
  {
    MutexLock lock(mutex_);
    if (!has_rates_) generation = progress_.generation;  // its first step
    TakeStep(figures);
  }
  if (generation != 0) on_advance_(generation);
}

void ProgressBoard::TakeStep(const StepFigures& figures) {
  Follow(has_rates_, figures.duration, average_.duration);
  Follow(has_rates_, figures.phases, average_.phases);
  Follow(has_rates_, figures.all_reduce, average_.all_reduce);
  has_rates_ = true;
  sum_.duration += figures.duration;
  Add(figures.phases, sum_.phases);
  v1::RankFigures& totals = progress_.totals;
  totals.set_steps(totals.steps() + 1);
  *totals.mutable_duration() = ToProto(sum_.duration);
  *totals.mutable_phases() = ToMessage(sum_.phases);
  SampleUsage(totals);

  v1::TrainingFigures& shown = progress_.figures;
  shown.set_step(figures.step);
  shown.set_loss(figures.loss);
  shown.set_gradient_norm(figures.gradient_norm);
  shown.set_learning_rate(figures.learning_rate);
  shown.set_payload_sent_bytes(figures.payload_sent_bytes);
  shown.set_payload_theory_bytes(figures.payload_theory_bytes);
  shown.set_awaited_rank(figures.awaited_rank);
  *shown.mutable_step_duration() = ToProto(average_.duration);
  *shown.mutable_all_reduce_duration() = ToProto(average_.all_reduce);
  *shown.mutable_phases() = ToMessage(average_.phases);
  *shown.mutable_remaining_duration() =
      ToProto(average_.duration *
              static_cast<double>(shown.total_steps() - figures.step));
  const double seconds = absl::ToDoubleSeconds(average_.duration);
  if (seconds > 0) {
    const PhaseFigures& phases = average_.phases;
    shown.set_samples_per_second(static_cast<double>(figures.samples) /
                                 seconds);
    shown.set_targets_per_second(static_cast<double>(figures.targets) /
                                 seconds);
    shown.set_model_flops_utilization(figures.peak_seconds / seconds);
    shown.set_communication_wait_ratio(
        absl::ToDoubleSeconds(phases.communication_wait) / seconds);
    shown.set_data_wait_ratio(absl::ToDoubleSeconds(phases.data_wait) /
                              seconds);
    shown.set_awaited_ratio(
        std::min(1.0, absl::ToDoubleSeconds(figures.awaited) / seconds));
  }
}

void ProgressBoard::SampleUsage(v1::RankFigures& totals) const {
  const ProcessUsage now = UsageOfProcess();
  totals.set_sent_bytes(now.wire.sent_bytes - start_.wire.sent_bytes);
  totals.set_received_bytes(now.wire.received_bytes -
                            start_.wire.received_bytes);
  *totals.mutable_cpu_time() = ToProto(now.cpu_time - start_.cpu_time);
  totals.set_peak_resident_bytes(now.peak_resident_bytes);
}

void ProgressBoard::RecordEvaluation(int64_t step,
                                     const EvaluationRecord& record) {
  MutexLock lock(mutex_);
  v1::TrainingFigures& figures = progress_.figures;
  figures.set_evaluation_step(step);
  figures.set_evaluation_loss(record.loss);
  if (record.accuracy.has_value())
    figures.set_evaluation_accuracy(*record.accuracy);
  if (record.top5_accuracy.has_value())
    figures.set_evaluation_top5_accuracy(*record.top5_accuracy);
  if (record.macro_f1.has_value())
    figures.set_evaluation_macro_f1(*record.macro_f1);
}

void ProgressBoard::RecordCheckpoint(int64_t step) {
  MutexLock lock(mutex_);
  progress_.figures.set_checkpoint_step(step);
}

void ProgressBoard::SetSkippedSamples(int64_t count) {
  MutexLock lock(mutex_);
  progress_.figures.set_skipped_samples(count);
}

void ProgressBoard::Clear() {
  MutexLock lock(mutex_);
  progress_ = TrainProgress();
  sum_ = {};
  has_rates_ = false;
}

TrainProgress ProgressBoard::progress() const {
  MutexLock lock(mutex_);
  TrainProgress progress = progress_;
  progress.disk_bytes = disk_.bytes();
  // A rank without steps, which holds parameters for others, has no better
  // moment.
  if (progress.totals.steps() == 0) SampleUsage(progress.totals);
  return progress;
}

}  // namespace ringmaster
