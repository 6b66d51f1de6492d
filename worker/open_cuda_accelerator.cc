#include <string>

#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "worker/open_accelerator.h"
#include "worker/train/cuda/cuda_accelerator.h"

namespace ringmaster {
namespace {

cuda::KernelChoice KernelsOf(const std::string& flag) {
  if (flag == "cudnn") return cuda::KernelChoice::kCudnn;
  return flag == "ours" ? cuda::KernelChoice::kOurs : cuda::KernelChoice::kAuto;
}

// Returns true for errors that another attempt will not mend.
bool IsWrongSetting(absl::StatusCode code) {
  return code == absl::StatusCode::kFailedPrecondition ||
         code == absl::StatusCode::kInvalidArgument ||
         code == absl::StatusCode::kNotFound ||
         code == absl::StatusCode::kUnimplemented;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Accelerator>> OpenAccelerator(
    const WorkerFlags& flags, int slot) {
  if (flags.device == "cpu") return nullptr;
  absl::StatusOr<std::unique_ptr<Accelerator>> accelerator =
      OpenCudaAccelerator({.ordinal = flags.share_gpu ? 0 : slot,
                           .share_gpu = flags.share_gpu,
                           .use_graphs = flags.cuda_graphs == "on",
                           .attention = KernelsOf(flags.attention),
                           .convolution = KernelsOf(flags.convolution),
                           .cache_directory = flags.tuning_cache});
  if (accelerator.ok()) return accelerator;
  const absl::Status status = Annotate(accelerator.status(), "--device=cuda");
  // A GPU whose last process has just died may be back in a moment.
  return WithExitCode(status, IsWrongSetting(status.code())
                                  ? ExitCode::kUsage
                                  : ExitCode::kRetryElsewhere);
}

}  // namespace ringmaster
