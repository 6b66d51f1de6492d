#include "server/ctl/compare/gpu_run.h"

#include "absl/strings/str_cat.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {
namespace {

bool IsNcclAlgorithm(v1::CollectiveAlgorithm algorithm) {
  return algorithm == v1::COLLECTIVE_ALGORITHM_UNSPECIFIED ||
         algorithm == v1::COLLECTIVE_ALGORITHM_RING;
}

}  // namespace

absl::Status CheckGpuModes(const std::vector<Mode>& modes, bool is_cluster) {
  int nccl_modes = 0;
  for (const Mode& mode : modes) {
    v1::TrainProgram train;
    ApplyMode(mode, train);
    if (IsReducedByNccl(train) && ++nccl_modes == 2 && is_cluster) {
      return absl::InvalidArgumentError(
          "--modes: the workers of a cluster were started with NCCL's own "
          "choice or with NCCL_ALGO=Ring, and cannot change between them; name "
          "auto or ring");
    }
    if (IsNcclAlgorithm(train.collective().algorithm())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--modes: ", mode.name,
        " is for workers on CPUs; on GPUs there are auto (NCCL's own choice), "
        "ring (NCCL held to rings), ps:N and ps:colocated"));
  }
  return absl::OkStatus();
}

absl::Status CheckGpuProgram(const v1::TrainProgram& train) {
  if (train.has_emulate_compute()) {
    return absl::InvalidArgumentError(
        "train.emulate_compute: workers on GPUs emulate nothing");
  }
  if (train.has_parameter_server()) {
    if (train.precision() != v1::PRECISION_FLOAT16) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "train.precision: workers on GPUs push no gradients of float16; use "
        "bfloat16");
  }
  if (!IsNcclAlgorithm(train.collective().algorithm())) {
    return absl::InvalidArgumentError(
        "train.collective.algorithm: between GPUs it is NCCL's own choice or "
        "ring");
  }
  if (train.collective().wire() != v1::COLLECTIVE_WIRE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "train.collective.wire: between GPUs gradients travel as float32");
  }
  return absl::OkStatus();
}

bool IsReducedByNccl(const v1::TrainProgram& train) {
  return !train.has_parameter_server();
}

std::vector<std::string> NcclLauncher(const v1::TrainProgram& train) {
  const bool is_ring =
      train.collective().algorithm() == v1::COLLECTIVE_ALGORITHM_RING;
  if (is_ring) return {"/usr/bin/env", "NCCL_ALGO=Ring"};
  return {"/usr/bin/env", "-u", "NCCL_ALGO"};
}

}  // namespace ringmaster::ctl
