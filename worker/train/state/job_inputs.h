// The files that a job reads before it begins, opened alike by ranks that train it
// and by whoever checks that they can.
//
// Errors name the job's field. What cannot be read, or is not what the job says,
// has the exit code kUnreadable; a mistake in the job has its own.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_JOB_INPUTS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_JOB_INPUTS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "common/transport/cancel_token.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {

// The samples for a model with this input. ABORTED if `cancel` was cancelled.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(
    const ProgramConfig& config, const ModelInput& input,
    const CancelToken* cancel = nullptr);

// Fills `parameters`, of all tensors of `plan`, from the file that the job names
// (train.initial_parameters); requires that it does.
[[nodiscard]] absl::Status ReadInitialParameters(const ProgramConfig& config,
                                                 const Plan& plan,
                                                 absl::Span<float> parameters);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_JOB_INPUTS_H_
