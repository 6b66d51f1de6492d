// ConnectRing makes a rank's Communicator for one generation: it connects to
// the next rank's listener and is connected to by the previous rank, both
// authenticated with the generation's secret.
#ifndef RINGMASTER_WORKER_COLLECTIVE_CONNECT_RING_H_
#define RINGMASTER_WORKER_COLLECTIVE_CONNECT_RING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "common/transport/tcp.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

struct RingConfig {
  std::string job_id;
  int64_t generation = 0;
  int rank = 0;
  int world_size = 1;
  std::string secret;        // of the generation; at least 16 bytes, random
  std::string next_address;  // "host:port" of the listener of rank (rank + 1) %
                             // world_size
  MonotonicTime deadline;    // for all connections; a neighbour that then
                             // answers nothing for as long is given up too
  Clock* clock = nullptr;    // outlives the communicator
  Trace* trace = nullptr;    // may be null; else outlives the communicator
  // One line for every connection that was refused meanwhile, on the calling
  // thread. May be empty.
  std::function<void(const absl::Status& why)> on_refused;
};

// `listener` belongs to the worker process and serves generation after
// generation; its address is what the previous rank was given. `cancel` (may be
// null) ends the call within milliseconds, from another thread.
//   INVALID_ARGUMENT     the configuration
// BlamedPeer (common/transport/establish.h) tells which neighbour an error is
// about.
//   DEADLINE_EXCEEDED    names the neighbours that are missing
//   ABORTED              cancelled; or a neighbour says that the generation is
//   over UNAUTHENTICATED, FAILED_PRECONDITION  a neighbour refused us for good
[[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> ConnectRing(
    const Listener& listener, const RingConfig& config,
    const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_CONNECT_RING_H_
