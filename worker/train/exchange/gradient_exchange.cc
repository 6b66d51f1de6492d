#include "worker/train/exchange/gradient_exchange.h"

#include <string>
#include <utility>
#include <vector>

#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "worker/collective/connect_mesh.h"
#include "worker/member/assignment_mesh.h"
#include "worker/member/collective_config.h"
#include "worker/train/exchange/all_reduce_forecast.h"
#include "worker/train/exchange/generation_log.h"

namespace ringmaster {

absl::StatusOr<std::unique_ptr<GradientExchange>> GradientExchange::Connect(
    const Parts& parts) {
  ASSIGN_OR_RETURN(
      const ShardLinkPlan links,
      PlanShardLinks(parts.assignment,
                     parts.state.config().collective.connections,
                     {.gradients = parts.state.shared_gradients(),
                      .parameters = parts.host == nullptr
                                        ? nullptr
                                        : parts.host->shared_parameters()}));
  std::unique_ptr<GradientExchange> exchange(new GradientExchange(parts));
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Channel>> channels,
                   exchange->ConnectMesh(links));
  LogTransports(*exchange->communicator_);
  RETURN_IF_ERROR(exchange->MakeSync(links, std::move(channels)));
  return exchange;
}

absl::StatusOr<std::vector<std::unique_ptr<Channel>>>
GradientExchange::ConnectMesh(const ShardLinkPlan& links) {
  MeshConfig mesh = MeshOf(parts_.assignment, parts_.state.config().collective,
                           parts_.clock, parts_.trace);
  mesh.arena = parts_.state.shared_gradients();
  mesh.policy = Policy(mesh.topology);
  mesh.on_refused = [this, log = mesh.on_refused](const absl::Status& why) {
    parts_.counters.refused_connections.Increment();
    log(why);
  };
  ASSIGN_OR_RETURN(ConnectedMesh connected,
                   ConnectMeshAndOthers(parts_.listener, mesh,
                                        links.connections, &parts_.cancel));
  communicator_ = std::move(connected.communicator);
  RETURN_IF_ERROR(ConnectAccelerators());
  return std::move(connected.others);
}

absl::Status GradientExchange::ConnectAccelerators() {
  Accelerator* const accelerator = parts_.state.accelerator();
  // Gradients go to servers from the host's memory.
  if (accelerator == nullptr || parts_.state.has_servers())
    return absl::OkStatus();
  ASSIGN_OR_RETURN(communicator_,
                   accelerator->Connect(
                       std::move(communicator_),
                       {.generation = parts_.assignment.generation,
                        .connect_timeout = parts_.assignment.connect_timeout,
                        .collective = parts_.state.config().collective,
                        .gradients = parts_.state.GradientsOf(
                            {0, parts_.state.plan().total_elems()}),
                        .cancel = parts_.cancel,
                        .clock = parts_.clock,
                        .trace = parts_.trace}));
  return absl::OkStatus();
}

absl::Status GradientExchange::MakeSync(
    const ShardLinkPlan& links,
    std::vector<std::unique_ptr<Channel>> channels) {
  if (!parts_.state.has_servers()) {
    all_reduce_ = std::make_unique<AllReduceSync>(
        parts_.assignment.generation, parts_.assignment.collective_timeout,
        parts_.state, *communicator_, parts_.clock, parts_.trace);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      ShardLinks shards,
      AssembleShardLinks(parts_.assignment.rank, links, std::move(channels)));
  ASSIGN_OR_RETURN(servers_,
                   ServerGeneration::Create({.assignment = parts_.assignment,
                                             .state = parts_.state,
                                             .communicator = *communicator_,
                                             .host = parts_.host,
                                             .cancel = parts_.cancel,
                                             .clock = parts_.clock,
                                             .trace = parts_.trace},
                                            std::move(shards)));
  return absl::OkStatus();
}

AlgorithmPolicy GradientExchange::Policy(const Topology& topology) {
  const CollectiveConfig& config = parts_.state.config().collective;
  AlgorithmPolicy policy = PolicyOf(config, parts_.assignment.costs);
  // In these cases the host's communicator makes no all-reduces of gradients.
  if (parts_.state.has_servers() || parts_.state.is_sharded() ||
      parts_.state.accelerator() != nullptr) {
    return policy;
  }
  const AllReduceForecast forecast = ForecastAllReduces(
      parts_.state.plan().buckets(), config.wire, topology, policy);
  parts_.board.SetAllReduces(forecast.duration, forecast.algorithms);
  const std::string remark = UnusableRemark(config, topology);
  if (!remark.empty()) {
    LogEvent(LogLevel::kWarning, "collective.algorithm_unusable",
             {{"message", remark}});
  }
  return policy;
}

ParameterSync& GradientExchange::sync() {
  if (servers_ != nullptr) return servers_->sync();
  return *all_reduce_;
}

GenerationFailure GradientExchange::End(const absl::Status& status) {
  GenerationFailure failure = {
      status, IsBlameKnown(status) ? BlamedPeer(status)
                                   : communicator_->progress().blamed_rank};
  if (servers_ != nullptr) failure = servers_->End(failure);
  communicator_->Abort(std::string(failure.status.message()));
  return failure;
}

}  // namespace ringmaster
