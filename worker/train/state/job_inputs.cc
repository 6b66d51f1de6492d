#include "worker/train/state/job_inputs.h"

#include <string>
#include <utility>

#include "common/files/file_roots.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "worker/checkpoint/import_parameters.h"
#include "worker/train/state/job_field_names.h"

namespace ringmaster {
namespace {

// A refusal of this process's roots keeps its own exit code.
absl::Status AsDataError(absl::Status status, const absl::Status& cause) {
  return WithExitCode(std::move(status), IsOutsideRoots(cause)
                                             ? ExitCode::kUsage
                                             : ExitCode::kUnreadable);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(
    const ProgramConfig& config, const ModelInput& input,
    const CancelToken* cancel) {
  DataConfig data = config.data;
  data.shape = input.shape;
  data.vocabulary = input.vocabulary;
  data.classes = input.classes;
  data.padding = input.padding;
  data.separator = input.separator;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset =
      CreateDataset(data, cancel);
  if (dataset.ok() || absl::IsAborted(dataset.status())) return dataset;
  return AsDataError(
      absl::Status(
          dataset.status().code(),
          InJobFields(std::string(dataset.status().message()), data.kind)),
      dataset.status());
}

absl::Status ReadInitialParameters(const ProgramConfig& config,
                                   const Plan& plan,
                                   absl::Span<float> parameters) {
  const absl::Status imported =
      ImportParameters(config.program.initial_parameters(), plan, parameters);
  return imported.ok()
             ? imported
             : AsDataError(Annotate(imported, "train.initial_parameters"),
                           imported);
}

}  // namespace ringmaster
