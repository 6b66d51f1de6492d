// NcclSettings are the choices of a job that NCCL takes from the process'
// environment only.
//
// NCCL reads its environment once in a process and keeps what it read, so these
// belong to a process, not to a generation.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_SETTINGS_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_SETTINGS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster {

// The environment variable by which a worker lets its GPU be shared ("1"). For
// tests: the program that starts workers reads it into NcclSettings.
inline constexpr char kShareGpuVariable[] = "RINGMASTER_SHARE_GPU";

struct NcclSettings {
  // For tests where ranks outnumber GPUs: each process says that it is a host
  // of its own, and so reaches the others through sockets, as between nodes.
  // (Otherwise NCCL refuses two ranks on one GPU.) It needs a process for each
  // rank. Slow: no figure from it means anything.
  bool share_gpu = false;
  // Rings alone, in place of NCCL's own choice: for comparisons.
  bool ring = false;

  friend bool operator==(const NcclSettings&, const NcclSettings&) = default;
};

// For messages: "ring=0 share_gpu=1". Equal for equal settings only.
[[nodiscard]] std::string ToText(const NcclSettings& settings);

// The variables and their values, in order. `host_name` is one that no other
// process has.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> NcclVariables(
    const NcclSettings& settings, std::string_view host_name);

// Sets them in this process, before NCCL is used for the first time; a variable
// that has a value already keeps it, so that the starter of a worker has the
// last word. Changing the environment races with other threads that read it:
// call it while the process starts. Later calls only compare. Thread-safe
// otherwise.
//   FAILED_PRECONDITION  this process has other settings already
[[nodiscard]] absl::Status ApplyNcclSettings(const NcclSettings& settings);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_SETTINGS_H_
