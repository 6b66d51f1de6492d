// The findings of `ringctl doctor` about the ways that NCCL takes between GPUs
// and to other hosts: in NCCL's own words, for it decides by rules of its own.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_NCCL_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_NCCL_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

// NCCL's log (NCCL_DEBUG=INFO) of a communicator over all GPUs of this host.
struct NcclFacts {
  int gpus = 0;       // of the communicator
  std::string error;  // why there is no communicator, or ""
  std::string log;
};

// The contents of such a log. The wording is that of NCCL 2.19 to 2.28; what
// another version words differently stays unknown.
struct NcclReport {
  std::string bootstrap;                // "eth0:10.0.0.1"; "": not told
  std::string network;                  // "IB", "Socket"; "": not told
  std::vector<std::string> interfaces;  // "mlx5_0:1/RoCE", "eth0:10.0.0.1"
  // Adapters that read GPUs' memory themselves, by name.
  std::map<std::string, bool> has_gpu_direct;
  // Connections between GPUs by transport: P2P, SHM, NET.
  std::map<std::string, int> connections;
  int gpus_with_nvls = 0;
  int gpus_without_nvls = 0;
  std::string last_warning;
};

// Makes a communicator over all GPUs; nullopt without a GPU or without NCCL,
// which are gpu.h's findings. To be called in a process of its own, which ends
// afterwards: it sets NCCL's variables for its log, and leaves it to the end of
// the process to free the communicator. Takes seconds with many GPUs.
[[nodiscard]] std::optional<NcclFacts> GatherNcclFacts();

// Pure.
[[nodiscard]] NcclReport ParseNcclLog(std::string_view log);
[[nodiscard]] std::vector<Finding> NcclFindings(const NcclFacts& facts);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_NCCL_H_
