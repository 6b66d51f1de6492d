// Opens the device that `--device` names. Another file implements it in a build
// with --config=cuda.
#ifndef RINGMASTER_WORKER_OPEN_ACCELERATOR_H_
#define RINGMASTER_WORKER_OPEN_ACCELERATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/train/state/accelerator.h"
#include "worker/worker_flags.h"

namespace ringmaster {

// Opens the accelerator of `slot`: GPU number `slot` of those that CUDA shows
// this process, or the first one where GPUs are shared. Returns null with
// --device=cpu.
// Errors begin with "--device=cuda: ". The exit code is 2 for
//   FAILED_PRECONDITION       this build has no CUDA; no driver, an old one, or
//                             no GPU
//   INVALID_ARGUMENT          there are fewer GPUs than slots
//   NOT_FOUND, UNIMPLEMENTED  there is no library of CUDA that this build can use
// and 138 for all others: a GPU may be back in a moment.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Accelerator>> OpenAccelerator(
    const WorkerFlags& flags, int slot);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_OPEN_ACCELERATOR_H_
