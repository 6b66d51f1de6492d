#include "worker/train/progress_board.h"

#include <algorithm>
#include <utility>

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

// Prepare and halt are told by messages of their own; evaluations not at all.
bool IsTold(TrainPhase before, TrainPhase after) {
  return before != after && before != TrainPhase::kEvaluate &&
         (after == TrainPhase::kConnect || after == TrainPhase::kTransfer ||
          after == TrainPhase::kCheckpoint || after == TrainPhase::kStep ||
          after == TrainPhase::kMeasure);
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
  progress_.figures.total_steps = total_steps;
  progress_.figures.awaited_rank = -1;
  progress_.figures.awaited_ratio = 0;
  progress_.totals = {};
  progress_.totals.gradient_bytes = gradient_bytes;
  start_ = UsageOfProcess();
  has_rates_ = false;
}

void ProgressBoard::SetAllReduces(absl::Duration predicted,
                                  std::vector<Algorithm> algorithms) {
  MutexLock lock(mutex_);
  progress_.figures.predicted_all_reduce = predicted;
  progress_.figures.all_reduce_algorithms = std::move(algorithms);
}

void ProgressBoard::SetSteps(int64_t applied_step, int64_t complete_step) {
  MutexLock lock(mutex_);
  progress_.applied_step = applied_step;
  progress_.complete_step = complete_step;
  progress_.figures.step = applied_step;
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
  TrainFigures& shown = progress_.figures;
  Follow(has_rates_, figures.duration, shown.step_duration);
  Follow(has_rates_, figures.phases, shown.phases);
  Follow(has_rates_, figures.all_reduce, shown.all_reduce);
  has_rates_ = true;
  RankTotals totals = progress_.totals;
  ++totals.steps;
  totals.duration += figures.duration;
  Add(figures.phases, totals.phases);
  progress_.totals = Sampled(totals);

  shown.step = figures.step;
  shown.loss = figures.loss;
  shown.gradient_norm = figures.gradient_norm;
  shown.learning_rate = figures.learning_rate;
  shown.payload_sent_bytes = figures.payload_sent_bytes;
  shown.payload_theory_bytes = figures.payload_theory_bytes;
  shown.awaited_rank = figures.awaited_rank;
  shown.remaining = shown.step_duration *
                    static_cast<double>(shown.total_steps - figures.step);
  const double seconds = absl::ToDoubleSeconds(shown.step_duration);
  if (seconds > 0) {
    const PhaseFigures& phases = shown.phases;
    shown.samples_per_second = static_cast<double>(figures.samples) / seconds;
    shown.targets_per_second = static_cast<double>(figures.targets) / seconds;
    shown.model_flops_utilization = figures.peak_seconds / seconds;
    shown.communication_wait_ratio =
        absl::ToDoubleSeconds(phases.communication_wait) / seconds;
    shown.data_wait_ratio = absl::ToDoubleSeconds(phases.data_wait) / seconds;
    shown.awaited_ratio =
        std::min(1.0, absl::ToDoubleSeconds(figures.awaited) / seconds);
  }
}

RankTotals ProgressBoard::Sampled(RankTotals totals) const {
  const ProcessUsage now = UsageOfProcess();
  totals.sent_bytes = now.wire.sent_bytes - start_.wire.sent_bytes;
  totals.received_bytes = now.wire.received_bytes - start_.wire.received_bytes;
  totals.cpu_time = now.cpu_time - start_.cpu_time;
  totals.peak_resident_bytes = now.peak_resident_bytes;
  return totals;
}

void ProgressBoard::RecordEvaluation(int64_t step, double loss,
                                     double accuracy) {
  MutexLock lock(mutex_);
  progress_.figures.has_evaluation = true;
  progress_.figures.evaluation_step = step;
  progress_.figures.evaluation_loss = loss;
  progress_.figures.evaluation_accuracy = accuracy;
}

void ProgressBoard::RecordCheckpoint(int64_t step) {
  MutexLock lock(mutex_);
  progress_.figures.checkpoint_step = step;
}

void ProgressBoard::SetSkippedSamples(int64_t count) {
  MutexLock lock(mutex_);
  progress_.figures.skipped_samples = count;
}

void ProgressBoard::Clear() {
  MutexLock lock(mutex_);
  progress_ = TrainProgress();
  has_rates_ = false;
}

TrainProgress ProgressBoard::progress() const {
  MutexLock lock(mutex_);
  TrainProgress progress = progress_;
  progress.disk_bytes = disk_.bytes();
  // A rank without steps, which holds parameters for others, has no better
  // moment.
  if (progress.totals.steps == 0) progress.totals = Sampled(progress.totals);
  return progress;
}

}  // namespace ringmaster
