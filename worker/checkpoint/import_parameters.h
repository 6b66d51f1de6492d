// ImportParameters reads parameters that another program wrote, such as GPT-2
// as Hugging Face publishes it.
#ifndef RINGMASTER_WORKER_CHECKPOINT_IMPORT_PARAMETERS_H_
#define RINGMASTER_WORKER_CHECKPOINT_IMPORT_PARAMETERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"

namespace ringmaster {

// Reads all tensors of `plan` by name into `parameters`, the whole arena, and
// zeros its padding. `path` is a safetensors file, or a directory that holds
// model.safetensors (a Hugging Face model, or a checkpoint of ours). Elements
// may be F32, F64, F16 or BF16. A name may have or lack the prefix
// "transformer.", on either side.
// It leaves out the constants of GPT-2 and Llama, `*.attn.bias`,
// `*.attn.masked_bias` and `*.rotary_emb.inv_freq`, the norms' counts of
// PyTorch, `*.num_batches_tracked`, and an `lm_head.weight` that equals the token
// embedding, if the plan has no such tensor. Of a BERT it takes over the head
// (`cls.*`, `lm_head.*`, `classifier.*`, `*.pooler.*`) if the plan has that one;
// other heads are left out, and tensors of the plan's own head that are missing
// keep the values that they have.
//   FAILED_PRECONDITION  a tensor of the plan is missing or has another shape,
//                        or the file has one that the plan has not; named
// and the errors of SafetensorsFile. After an error `parameters` may be partly
// filled.
[[nodiscard]] absl::Status ImportParameters(const std::string& path,
                                            const Plan& plan,
                                            absl::Span<float> parameters);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_IMPORT_PARAMETERS_H_
