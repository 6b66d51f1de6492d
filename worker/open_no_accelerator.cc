#include "common/status/exit_code.h"
#include "worker/open_accelerator.h"

namespace ringmaster {

absl::StatusOr<std::unique_ptr<Accelerator>> OpenAccelerator(
    const WorkerFlags& flags, int /*slot*/) {
  if (flags.device == "cpu") return nullptr;
  return WithExitCode(
      absl::FailedPreconditionError(
          "--device=cuda: this build has no CUDA (it is made with "
          "--config=cuda). Use --device=cpu."),
      ExitCode::kUsage);
}

}  // namespace ringmaster
