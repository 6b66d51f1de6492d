#include "worker/train/progress_board.h"

namespace ringmaster {
namespace {

constexpr double kNewWeight = 0.1;

double Blend(double old_value, double new_value) {
  return old_value + kNewWeight * (new_value - old_value);
}

}  // namespace

void ProgressBoard::EnterPhase(TrainPhase phase) {
  MutexLock lock(mutex_);
  progress_.phase = phase;
}

void ProgressBoard::BeginGeneration(int64_t generation, int64_t total_steps) {
  MutexLock lock(mutex_);
  progress_.generation = generation;
  progress_.figures.total_steps = total_steps;
  has_rates_ = false;
}

void ProgressBoard::SetSteps(int64_t applied_step, int64_t complete_step) {
  MutexLock lock(mutex_);
  progress_.applied_step = applied_step;
  progress_.complete_step = complete_step;
  progress_.figures.step = applied_step;
}

void ProgressBoard::RecordStep(const StepFigures& figures) {
  MutexLock lock(mutex_);
  const double duration = absl::ToDoubleSeconds(figures.duration);
  const double communication =
      absl::ToDoubleSeconds(figures.communication_wait);
  const double data = absl::ToDoubleSeconds(figures.data_wait);
  step_seconds_ = has_rates_ ? Blend(step_seconds_, duration) : duration;
  communication_seconds_ =
      has_rates_ ? Blend(communication_seconds_, communication) : communication;
  data_seconds_ = has_rates_ ? Blend(data_seconds_, data) : data;
  has_rates_ = true;

  TrainFigures& shown = progress_.figures;
  shown.step = figures.step;
  shown.loss = figures.loss;
  shown.gradient_norm = figures.gradient_norm;
  shown.payload_sent_bytes = figures.payload_sent_bytes;
  shown.step_duration = absl::Seconds(step_seconds_);
  shown.remaining = absl::Seconds(
      step_seconds_ * static_cast<double>(shown.total_steps - figures.step));
  if (step_seconds_ > 0) {
    shown.samples_per_second =
        static_cast<double>(figures.samples) / step_seconds_;
    shown.communication_wait_ratio = communication_seconds_ / step_seconds_;
    shown.data_wait_ratio = data_seconds_ / step_seconds_;
  }
}

void ProgressBoard::RecordEvaluation(int64_t step, double loss) {
  MutexLock lock(mutex_);
  progress_.figures.has_evaluation = true;
  progress_.figures.evaluation_step = step;
  progress_.figures.evaluation_loss = loss;
}

void ProgressBoard::Clear() {
  MutexLock lock(mutex_);
  progress_ = TrainProgress();
  has_rates_ = false;
}

TrainProgress ProgressBoard::progress() const {
  MutexLock lock(mutex_);
  return progress_;
}

}  // namespace ringmaster
