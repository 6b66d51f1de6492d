// Rules that involve several fields of a job. These checks require that each
// field keeps its own rule (field_rules.h). Pure.
#ifndef RINGMASTER_COMMON_JOB_PROGRAM_RULES_H_
#define RINGMASTER_COMMON_JOB_PROGRAM_RULES_H_

#include "common/job/spec_errors.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// Sets the sizes of the preset, if `gpt` names one, where it leaves them out;
// before FillDefaults. A preset that there is not is an error.
void FillPreset(v1::GptSpec& gpt, SpecErrors& errors);

// Returns true if a preset has nothing left to set in `gpt`.
[[nodiscard]] bool HasAllSizes(const v1::GptSpec& gpt);

// Adds what is wrong with the model, as far as its own fields tell.
void CheckModel(const v1::ModelSpec& model, SpecErrors& errors);

// Adds what the names of a spec alone can tell about a model and its data; the
// workers see the rest.
void CheckData(const v1::TrainProgram& train, SpecErrors& errors);

// Adds what does not go together with train.parameter_server, if there is one.
void CheckParameterServer(const v1::TrainProgram& train, int max_workers,
                          SpecErrors& errors);

// Adds what is wrong with the benchmark, or with the number of `workers` for it:
// figures are of one number of ranks.
void CheckBench(const v1::BenchProgram& bench, const v1::WorkerRange& workers,
                SpecErrors& errors);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_PROGRAM_RULES_H_
