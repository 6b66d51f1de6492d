// ConnectMesh makes a rank's Communicator for one generation: it connects to
// all ranks that it exchanges messages with in collectives, authenticates each
// connection with the generation's secret, and moves connections inside the
// host to shared memory if both sides can.
#ifndef RINGMASTER_WORKER_COLLECTIVE_CONNECT_MESH_H_
#define RINGMASTER_WORKER_COLLECTIVE_CONNECT_MESH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/plan/mesh.h"
#include "common/plan/topology.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/connect_peers.h"
#include "common/transport/shared_segment.h"
#include "common/transport/tcp.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {

struct MeshConfig {
  std::string job_id;
  int64_t generation = 0;
  int rank = 0;
  Topology topology = Topology::OneHost(1);
  std::vector<PeerAddress> peers;  // at least those of PeersOf(rank, topology)
  std::string secret;      // of the generation; at least 16 bytes, random
  MonotonicTime deadline;  // for all connections; a peer that then answers
                           // nothing for as long is given up too
  // The best transport to try; a slower one is used for a peer if it fails.
  Transport best_transport = Transport::kSharedMemory;
  // ConnectPeersConfig::integrity; the same on all ranks.
  FrameIntegrity integrity = FrameIntegrity::kNone;
  // Connections to each peer of another host, from 1 to kMaxConnections; the
  // same on all ranks. More than one helps where the network limits each.
  int stripes = 1;
  // Buffers in it are read in place by ranks that share memory with this one.
  // May be null; outlives the communicator.
  const SharedSegment* arena = nullptr;
  AlgorithmPolicy policy;
  Clock* clock = nullptr;  // outlives the communicator
  Trace* trace = nullptr;  // may be null; else outlives the communicator
  // One line for every connection that was refused meanwhile, on the calling
  // thread. May be empty.
  std::function<void(const absl::Status& why)> on_refused;
  // One line for every peer that is reached over a Unix socket and shares no
  // memory. May be empty.
  std::function<void(int peer_rank, const std::string& why)> on_fallback;
};

// `listener` belongs to the worker process and serves generation after
// generation; its address is what the peers were given. `cancel` (may be null)
// ends the call within milliseconds, from another thread.
// BlamedPeer (common/transport/establish.h) returns the peer that an error is
// about.
//   INVALID_ARGUMENT     the configuration; a peer that is missing from it
//   DEADLINE_EXCEEDED    names the peers that are missing
//   ABORTED              cancelled; or a peer says that the generation is over
//   UNAUTHENTICATED, FAILED_PRECONDITION  a peer refused us for good, or broke
//                        the protocol
[[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> ConnectMesh(
    const Listener& listener, const MeshConfig& config,
    const CancelToken* cancel);

// The same with further channels beside the communicator's, made in the same
// call because a process has one listener.
struct ConnectedMesh {
  std::unique_ptr<Communicator> communicator;
  std::vector<std::unique_ptr<Channel>>
      others;  // of each of `others`, in order
};
[[nodiscard]] absl::StatusOr<ConnectedMesh> ConnectMeshAndOthers(
    const Listener& listener, const MeshConfig& config,
    std::span<const PeerConnection> others, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_CONNECT_MESH_H_
