// ExportModel writes a checkpoint's model as Hugging Face's programs read it, without
// what only a job needs.
#ifndef RINGMASTER_WORKER_CHECKPOINT_EXPORT_MODEL_H_
#define RINGMASTER_WORKER_CHECKPOINT_EXPORT_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"
#include "worker/checkpoint/manifest.h"

namespace ringmaster {

struct ExportedModel {
  int64_t size_bytes = 0;  // of model.safetensors
  // The reasons why companions could not be copied.
  std::vector<absl::Status> left_out;
};

// Verifies the model of the checkpoint at `checkpoint` and writes the directory `out`:
//
//   model.safetensors       its parameters as `dtype`, rounded to nearest
//   config.json             as in the checkpoint, with that dtype
//   generation_config.json  where a text begins and ends
//
// and copies of the manifest's companions, as far as they can be read.
// `out` appears by one rename, once all is on the disk; a process that dies before leaves
// `out`.tmp-RANDOM. Takes memory for the parameters as `dtype`.
//   INVALID_ARGUMENT     `dtype` is not float32, bfloat16 or float16
//   ALREADY_EXISTS       there is something at `out`
//   FAILED_PRECONDITION  the checkpoint has no config.json, so its model is none that
//                        Hugging Face's programs know; or float16 has no number for a
//                        parameter, and the tensor is named
// and the errors of VerifyCheckpoint and DurableFile.
[[nodiscard]] absl::StatusOr<ExportedModel> ExportModel(
    const std::string& checkpoint, const std::string& out, DType dtype);

// Returns the files of a job's tokenizer, with absolute paths: GPT-2's `vocabulary` and
// `merges`, BERT's `vocabulary` without `merges` and tokenizer_config.json, if
// it lies beside that, or, if both are "", what lies beside the initial
// parameters, which are a file or a directory, or "".
[[nodiscard]] std::vector<CheckpointCompanion> FindCompanions(
    const std::string& vocabulary, const std::string& merges,
    const std::string& initial_parameters);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_EXPORT_MODEL_H_
