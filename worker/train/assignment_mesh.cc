#include "worker/train/assignment_mesh.h"

#include <string>

#include "common/logging/logging.h"
#include "common/plan/topology.h"

namespace ringmaster {

MeshConfig MeshOf(const RankAssignment& assignment,
                  const CollectiveConfig& collective, Clock& clock,
                  Trace& trace) {
  MeshConfig mesh;
  mesh.job_id = assignment.job_id;
  mesh.generation = assignment.generation;
  mesh.rank = assignment.rank;
  mesh.topology = Topology::OfHosts(assignment.ranks_per_host);
  mesh.peers = assignment.peers;
  mesh.secret = assignment.secret;
  mesh.deadline = clock.Now() + assignment.connect_timeout;
  mesh.best_transport = collective.best_transport;
  mesh.stripes = collective.connections;
  mesh.clock = &clock;
  mesh.trace = &trace;
  mesh.on_refused = [](const absl::Status& why) {
    LogEvent(LogLevel::kWarning, "connection.refused",
             {{"message", std::string(why.message())}});
  };
  mesh.on_fallback = [](int peer_rank, const std::string& why) {
    LogEvent(LogLevel::kInfo, "connection.no_shared_memory",
             {{"peer", peer_rank}, {"message", why}});
  };
  return mesh;
}

}  // namespace ringmaster
