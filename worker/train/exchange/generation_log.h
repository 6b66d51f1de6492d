// The lines that a generation leaves in a worker's log.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_GENERATION_LOG_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_GENERATION_LOG_H_

#include "common/metrics/metrics.h"
#include "worker/collective/communicator.h"
#include "worker/member/job_runner.h"
#include "worker/train/exchange/parameter_sync.h"

namespace ringmaster {

// Logs how this rank reaches the others: the number of them by transport.
void LogTransports(const Communicator& communicator);
// Logs the peer that this rank has waited for longest: the straggler, if there
// is one.
void LogMostAwaited(const ParameterSync& sync);
// Logs the time of a step's all-reduces, and the predicted one; nothing if
// there were none.
void LogAllReduces(const v1::TrainingFigures& figures);

// Logs what the process has done so far, one line per counter, at level debug.
void LogCounters(const MetricRegistry& metrics);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_GENERATION_LOG_H_
