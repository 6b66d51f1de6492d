// The connections that an assignment asks for.
#ifndef RINGMASTER_WORKER_MEMBER_ASSIGNMENT_MESH_H_
#define RINGMASTER_WORKER_MEMBER_ASSIGNMENT_MESH_H_

#include "absl/status/status.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "common/transport/channel.h"
#include "common/transport/connect_peers.h"
#include "worker/collective/connect_mesh.h"
#include "worker/member/collective_config.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

// Returns the config for ConnectMesh, except the policy and the arena. Refused
// connections and peers of the host that share no memory become lines in the
// log. `clock` and `trace` must outlive the communicator.
[[nodiscard]] MeshConfig MeshOf(const RankAssignment& assignment,
                                const CollectiveConfig& collective,
                                Clock& clock, Trace& trace);

// Returns the config for ConnectPeers, for a member without a mesh; otherwise
// as MeshOf.
[[nodiscard]] ConnectPeersConfig PeersConfigOf(const RankAssignment& assignment,
                                               Transport best_transport,
                                               Clock& clock);

// INVALID_ARGUMENT: what members send each other between hosts must be
// encrypted, and NCCL would carry gradients between the generation's hosts in
// clear text.
[[nodiscard]] absl::Status CheckNcclTraffic(const RankAssignment& assignment);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_ASSIGNMENT_MESH_H_
