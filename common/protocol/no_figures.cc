#include "common/protocol/no_figures.h"

namespace ringmaster {

v1::TrainingFigures NoFigures() {
  v1::TrainingFigures figures;
  figures.set_awaited_rank(-1);
  // Durations are there, as in those that a worker reports.
  figures.mutable_step_duration();
  figures.mutable_remaining_duration();
  figures.mutable_all_reduce_duration();
  figures.mutable_predicted_all_reduce_duration();
  v1::PhaseDurations& phases = *figures.mutable_phases();
  phases.mutable_data_wait();
  phases.mutable_forward();
  phases.mutable_backward();
  phases.mutable_communication_wait();
  phases.mutable_optimizer();
  phases.mutable_snapshot();
  return figures;
}

}  // namespace ringmaster
