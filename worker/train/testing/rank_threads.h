// RunRanks trains one generation of a job with `world_size` ranks as threads of
// this process, over real TCP links.
//
// For tests that look at parameters and traces, which the JobRunner interface
// does not show.
#ifndef RINGMASTER_WORKER_TRAIN_TESTING_RANK_THREADS_H_
#define RINGMASTER_WORKER_TRAIN_TESTING_RANK_THREADS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"
#include "common/trace/trace.h"
#include "worker/collective/communicator.h"
#include "worker/train/exchange/parameter_sync.h"
#include "worker/train/state/program_config.h"
#include "worker/train/state/training_state.h"
#include "worker/train/step/generation_run.h"

namespace ringmaster {

struct RankResult {
  std::unique_ptr<TrainingState> state;
  absl::StatusOr<GenerationRun::End> end = absl::UnknownError("not run");
  Trace trace;
  MetricRegistry metrics;
  // Of the last evaluation.
  double evaluation_loss = 0;
  double top5_accuracy = 0;
  double macro_f1 = 0;
};

// Trains one rank to its end: what RunRanks does with each.
[[nodiscard]] absl::StatusOr<GenerationRun::End> TrainRank(
    Communicator& communicator, ParameterSync& sync, RankResult& result);

// Results in rank order. `threads` compute on each rank.
std::vector<std::unique_ptr<RankResult>> RunRanks(const ProgramConfig& config,
                                                  int world_size,
                                                  int threads = 1);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_TESTING_RANK_THREADS_H_
