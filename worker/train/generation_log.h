// What a generation leaves in a worker's log.
#ifndef RINGMASTER_WORKER_TRAIN_GENERATION_LOG_H_
#define RINGMASTER_WORKER_TRAIN_GENERATION_LOG_H_

#include "common/metrics/metrics.h"
#include "worker/collective/communicator.h"
#include "worker/train/parameter_sync.h"
#include "worker/train/trainer.h"

namespace ringmaster {

// How this rank reaches the others: how many of them over what.
void LogTransports(const Communicator& communicator);
// The peer that this rank has waited for longest: the straggler, if there is
// one.
void LogMostAwaited(const ParameterSync& sync);
// What a step's all-reduces took, and what was expected of them; nothing where
// there were none.
void LogAllReduces(const TrainFigures& figures);

// What the process has done so far, a line a counter, at level debug.
void LogCounters(const MetricRegistry& metrics);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_GENERATION_LOG_H_
