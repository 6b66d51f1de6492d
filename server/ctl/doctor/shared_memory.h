// The findings of `ringctl doctor` about memory that processes of this host
// share.
//
// Ranks on CPUs use memfds that they pass through Unix sockets
// (common/transport/shared_segment.h), and so need no /dev/shm; NCCL does.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_SHARED_MEMORY_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_SHARED_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

struct SharedMemoryFacts {
  absl::Status segment;      // of making one as ranks do
  absl::Status unix_socket;  // of listening as ranks do
  // -1: there is no /dev/shm.
  int64_t dev_shm_bytes = -1;
  int64_t dev_shm_free_bytes = -1;
  std::string dev_shm_error;  // why nothing can be written there, or ""
  bool is_cuda_wanted = false;
};

// Makes and removes a segment, a socket and a file in /dev/shm.
[[nodiscard]] SharedMemoryFacts GatherSharedMemoryFacts(bool is_cuda_wanted);

// Pure.
[[nodiscard]] std::vector<Finding> SharedMemoryFindings(
    const SharedMemoryFacts& facts);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_SHARED_MEMORY_H_
