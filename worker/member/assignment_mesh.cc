#include "worker/member/assignment_mesh.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/plan/topology.h"

namespace ringmaster {

namespace {

void LogRefusal(const absl::Status& why) {
  LogEvent(LogLevel::kWarning, "connection.refused",
           {{"message", std::string(why.message())}});
}

void LogFallback(int peer_rank, const std::string& why) {
  LogEvent(LogLevel::kInfo, "connection.no_shared_memory",
           {{"peer", peer_rank}, {"message", why}});
}

}  // namespace

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
  mesh.integrity = assignment.integrity;
  mesh.stripes = collective.connections;
  mesh.clock = &clock;
  mesh.trace = &trace;
  mesh.on_refused = LogRefusal;
  mesh.on_fallback = LogFallback;
  return mesh;
}

ConnectPeersConfig PeersConfigOf(const RankAssignment& assignment,
                                 Transport best_transport, Clock& clock) {
  ConnectPeersConfig config;
  config.job_id = assignment.job_id;
  config.generation = assignment.generation;
  config.rank = assignment.rank;
  config.secret = assignment.secret;
  config.deadline = clock.Now() + assignment.connect_timeout;
  config.best_transport = best_transport;
  config.integrity = assignment.integrity;
  config.clock = &clock;
  config.on_refused = LogRefusal;
  config.on_fallback = LogFallback;
  return config;
}

absl::Status CheckNcclTraffic(const RankAssignment& assignment) {
  // Gradients that go to the holders of shards travel in frames.
  if (assignment.integrity != FrameIntegrity::kAes256Gcm ||
      assignment.ranks_per_host.size() < 2 ||
      !assignment.shard_placements.hosts.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the ranks' GPUs are on ", assignment.ranks_per_host.size(),
      " hosts, between which NCCL sends gradients in clear text, and "
      "--data_encryption=required forbids that; train on one host, or with "
      "parameter_server"));
}

}  // namespace ringmaster
