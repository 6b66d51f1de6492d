// Rules that involve several fields of a job. These checks require that each
// field keeps its own rule (field_rules.h). Pure.
#ifndef RINGMASTER_COMMON_JOB_PROGRAM_RULES_H_
#define RINGMASTER_COMMON_JOB_PROGRAM_RULES_H_

#include "common/job/spec_errors.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// If the model names a preset, sets the fields that it leaves out to the
// preset's. To be called before FillDefaults. An unknown preset is an error.
void FillPreset(v1::ModelSpec& model, SpecErrors& errors);

// Returns true if all sizes that a preset would set are set.
[[nodiscard]] bool HasAllSizes(const v1::ModelSpec& model);

// Sets the fields of the model whose defaults other fields decide.
void FillModel(v1::ModelSpec& model);

// Adds the errors of the model that its own fields show.
void CheckModel(const v1::TrainProgram& train, SpecErrors& errors);

// The name of a model that classifies images; null: it is none.
const char* ImageModelOf(const v1::ModelSpec& model);

// Adds the errors that the spec alone shows in how the model and its data fit
// together; the workers find the others.
void CheckData(const v1::TrainProgram& train, SpecErrors& errors);

// Adds the fields that do not go together with train.parameter_server, if it is
// set.
void CheckParameterServer(const v1::TrainProgram& train, int max_workers,
                          SpecErrors& errors);

// Adds the errors of the benchmark, and those of `workers`: a benchmark
// measures one number of ranks, so `min` and `max` must be equal.
void CheckBench(const v1::BenchProgram& bench, const v1::WorkerRange& workers,
                SpecErrors& errors);

// Adds the errors of a command and its variables.
void CheckExternal(const v1::ExternalProgram& external, SpecErrors& errors);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_PROGRAM_RULES_H_
