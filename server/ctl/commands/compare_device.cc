#include "server/ctl/commands/compare_device.h"

#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job_service.pb.h"
#include "server/ctl/doctor/gpu.h"

namespace ringmaster::ctl {
namespace {

absl::StatusOr<bool> AreIdleOnGpus(const v1::Status& cluster) {
  bool are_any = false;
  bool are_all = true;
  for (const v1::Worker& worker : cluster.workers()) {
    if (worker.state() != v1::WORKER_STATE_IDLE ||
        worker.role() != v1::ROLE_WORKER) {
      continue;
    }
    const bool is_on_gpu = worker.device().kind() == v1::DEVICE_KIND_CUDA;
    are_any |= is_on_gpu;
    are_all &= is_on_gpu;
  }
  if (!are_any || are_all) return are_any;
  return absl::InvalidArgumentError(
      "--coordinator: the cluster has idle workers on GPUs and others on CPUs, "
      "which do not train together; leave those of one kind");
}

absl::Status CheckGpuFlags(const CompareFlags& flags) {
  for (const auto& [flag, is_given, why] :
       {std::tuple("--link", !flags.link.empty(),
                   "NCCL goes between GPUs of one machine without a link"),
        std::tuple("--emulate_compute", flags.is_emulated,
                   "workers on GPUs emulate nothing"),
        std::tuple("--device_memory", !flags.device_memory.empty(),
                   "what is measured is the host's memory, not a GPU's")}) {
    if (is_given) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " is for workers on CPUs: ", why));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> AreWorkersOnGpus(const CompareFlags& flags,
                                      const v1::Status* cluster) {
  const bool is_cuda = flags.device == "cuda";
  if (cluster != nullptr && (is_cuda || flags.share_gpu)) {
    return absl::InvalidArgumentError(absl::StrCat(
        is_cuda ? "--device" : "--share_gpu",
        ": the workers of a cluster compute on what they were started with; "
        "leave it out"));
  }
  if (flags.share_gpu && !is_cuda) {
    return absl::InvalidArgumentError(
        "--share_gpu is of --device=cuda, and this is --device=cpu");
  }
  bool is_on_gpus = is_cuda;
  if (cluster != nullptr) {
    ASSIGN_OR_RETURN(is_on_gpus, AreIdleOnGpus(*cluster));
  }
  if (is_on_gpus) RETURN_IF_ERROR(CheckGpuFlags(flags));
  return is_on_gpus;
}

std::string DeviceText(bool is_on_gpus, bool is_cluster, bool share_gpu) {
  if (!is_on_gpus) return "CPUs";
  if (is_cluster) return "GPUs";
  std::set<std::string> names;
  for (const Gpu& gpu : GatherGpuFacts(/*is_wanted=*/false).gpus)
    names.insert(gpu.name);
  return absl::StrCat(
      share_gpu ? "one GPU for all" : "a GPU each",
      names.empty() ? "" : absl::StrCat(": ", absl::StrJoin(names, ", ")));
}

}  // namespace ringmaster::ctl
