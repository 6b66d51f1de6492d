// The findings of `ringctl doctor` about cores, memory, limits and clocks of
// this machine, or of this container of it.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_MACHINE_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

// A limit of setrlimit(2); nothing: unlimited.
struct Limit {
  std::optional<int64_t> soft;
  std::optional<int64_t> hard;
};

// -1 and "" stand for what is not known.
struct MachineFacts {
  int cores = -1;         // that this process may run on
  int numa_nodes = -1;    // of the machine
  std::string cpu_quota;  // cpu.max of the control group: "50000 100000"
  int64_t memory_bytes = -1;
  int64_t available_bytes = -1;
  int64_t swap_used_bytes = -1;
  std::optional<Limit> open_files;
  std::optional<Limit> locked_memory;  // in bytes
  std::string clock_source;            // "tsc"
  // True if workers shall use GPUs: NCCL locks memory.
  bool is_cuda_wanted = false;
};

// Reads /proc, /sys and the limits of this process.
[[nodiscard]] MachineFacts GatherMachineFacts(bool is_cuda_wanted);

// Cores, memory, swap, open files, locked memory, clock. Pure.
[[nodiscard]] std::vector<Finding> MachineFindings(const MachineFacts& facts);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_MACHINE_H_
