// Checks which collectives on device memory NCCL can run for us, and computes
// how many bytes they move.
//
// Thread-safety: pure functions.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_REQUEST_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl/nccl_settings.h"

namespace ringmaster {

// Checks `request`, whose buffer is in device memory.
//   INVALID_ARGUMENT  count, address or root; a barrier, which has no buffer; an
//                     average of integers; a wire dtype other than the
//                     buffer's; an algorithm other than auto, or than ring where
//                     `settings` say so
[[nodiscard]] absl::Status CheckNcclRequest(const CollectiveRequest& request,
                                            int world_size,
                                            const NcclSettings& settings);

// The bytes that `rank` sends and receives by theory, since NCCL does not tell
// what it moved. They are those of a ring, in whole bytes: 2K(N-1)/N for an
// all-reduce of K bytes among N ranks, half of that for a reduce-scatter or an
// all-gather; a broadcast passes K bytes along the chain that begins at the
// root.
struct NcclTraffic {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
};
[[nodiscard]] NcclTraffic TrafficByTheory(const CollectiveRequest& request,
                                          int rank, int world_size);

// "all_reduce of 1024 float32 (bucket 3 of step 12)": for messages.
[[nodiscard]] std::string DescribeRequest(const CollectiveRequest& request);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_REQUEST_H_
