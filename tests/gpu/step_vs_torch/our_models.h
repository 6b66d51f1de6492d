// The jobs that our side of step_vs_torch trains; models.py has their sizes.
#ifndef RINGMASTER_TESTS_GPU_STEP_VS_TORCH_OUR_MODELS_H_
#define RINGMASTER_TESTS_GPU_STEP_VS_TORCH_OUR_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// Names for the command line.
std::vector<std::string> StepModels();
std::vector<std::string> StepPrecisions();

// A job that trains `model` with AdamW on generated samples, without end. What
// images need is in `directory`, see WriteImages. Requires names of the above.
v1::TrainProgram StepProgram(const std::string& model, int64_t batch,
                             const std::string& precision,
                             const std::string& directory);

// Writes random images for the model "cnn" at this batch, and their labels.
//   UNAVAILABLE  names the file that cannot be written
[[nodiscard]] absl::Status WriteImages(const std::string& directory,
                                       int64_t batch);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_STEP_VS_TORCH_OUR_MODELS_H_
