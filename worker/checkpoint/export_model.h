// ExportModel writes a checkpoint's model as Hugging Face's programs read it, without
// what only a job needs.
#ifndef RINGMASTER_WORKER_CHECKPOINT_EXPORT_MODEL_H_
#define RINGMASTER_WORKER_CHECKPOINT_EXPORT_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"

namespace ringmaster {

// Verifies the model of the checkpoint at `checkpoint` and writes the directory `out`:
//
//   model.safetensors       its parameters as `dtype`, rounded to nearest
//   config.json             as in the checkpoint, with that dtype
//   generation_config.json  where a text begins and ends
//
// `out` appears by one rename, once all is on the disk; a process that dies before leaves
// `out`.tmp-RANDOM. Takes memory for the parameters as `dtype`. Returns the bytes of
// model.safetensors.
//   INVALID_ARGUMENT     `dtype` is not float32, bfloat16 or float16
//   ALREADY_EXISTS       there is something at `out`
//   FAILED_PRECONDITION  the checkpoint has no config.json, so its model is none that
//                        Hugging Face's programs know; or float16 has no number for a
//                        parameter, and the tensor is named
// and the errors of VerifyCheckpoint and DurableFile.
[[nodiscard]] absl::StatusOr<int64_t> ExportModel(const std::string& checkpoint,
                                                  const std::string& out,
                                                  DType dtype);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_EXPORT_MODEL_H_
