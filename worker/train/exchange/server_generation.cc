#include "worker/train/exchange/server_generation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/parameter_server/shard_layout.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake.h"
#include "worker/member/run_outcome.h"

namespace ringmaster {

absl::Status CheckShards(const TrainingState& state,
                         const RankAssignment& assignment) {
  const ShardPlacements& placements = assignment.shard_placements;
  if (state.has_servers() != !placements.hosts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", assignment.rank,
        placements.hosts.empty()
            ? " knows nobody who holds the job's parameters"
            : " knows who holds the parameters of a job that has no "
              "train.parameter_server"));
  }
  if (!state.has_servers()) return absl::OkStatus();
  return ShardLayout::Create(state.plan(),
                             static_cast<int>(placements.shards.size()))
      .status();
}

absl::StatusOr<std::unique_ptr<ServerGeneration>> ServerGeneration::Create(
    const Parts& parts, ShardLinks links) {
  const ShardPlacements& placements = parts.assignment.shard_placements;
  ASSIGN_OR_RETURN(
      const ShardLayout layout,
      ShardLayout::Create(parts.state.plan(),
                          static_cast<int>(placements.shards.size())));
  std::unique_ptr<ServerGeneration> generation(new ServerGeneration(parts));
  if (parts.host != nullptr) {
    generation->host_thread_ = std::make_unique<HostThread>(
        *parts.host, std::move(links.host), parts.assignment.rank);
  }
  const ProgramConfig& config = parts.state.config();
  ShardClient::Options options{
      .loop = {.job = JobHash(parts.assignment.job_id),
               .generation = parts.assignment.generation,
               .rank = parts.assignment.rank},
      .plan = parts.state.plan(),
      .layout = layout,
      .placements = placements,
      .wire = config.collective.wire,
      .clip_norm = config.optimizer.clip_norm,
      .cancel = parts.cancel,
      .clock = parts.clock,
      .trace = parts.trace};
  if (ServerCopies* const copies = parts.state.server_copies()) {
    options.on_answer = [copies](int bucket,
                                 absl::Span<const float> parameters) {
      copies->StartParameters(bucket, parameters);
    };
  }
  generation->client_ =
      std::make_unique<ShardClient>(options, std::move(links.hosts));
  generation->sync_ = std::make_unique<ServerSync>(
      parts.assignment.generation, parts.assignment.collective_timeout,
      parts.state, parts.communicator, *generation->client_, parts.clock,
      parts.trace);
  return generation;
}

absl::Status ServerGeneration::Begin(absl::FunctionRef<absl::Status()> load) {
  const std::vector<ShardPlacement>& shards =
      parts_.assignment.shard_placements.shards;
  const auto held = std::count_if(
      shards.begin(), shards.end(),
      [](const auto& placement) { return placement.source_rank >= 0; });
  const int64_t missing = static_cast<int64_t>(shards.size()) - held;
  if (missing == 0) return sync_->Begin();
  if (parts_.assignment.resume_step > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "asked to resume at step ", parts_.assignment.resume_step, ", but ",
        missing, " shards of the parameters have no holder"));
  }
  if (held == 0) RETURN_IF_ERROR(load());
  // Without a checkpoint, rank 0 gives the first parameters.
  if (parts_.state.applied_step() == 0)
    RETURN_IF_ERROR(parts_.state.ForgetLoaded());
  return sync_->Begin();
}

absl::Status ServerGeneration::AwaitHost() {
  if (host_thread_ == nullptr) return absl::OkStatus();
  awaits_host_.store(true, std::memory_order_relaxed);
  return host_thread_->Join().status();
}

GenerationFailure ServerGeneration::End(const GenerationFailure& seen) {
  GenerationFailure failure = seen;
  if (failure.blamed_rank < 0) failure.blamed_rank = client_->blamed_rank();
  if (host_thread_ == nullptr) return failure;
  host_thread_->cancel().Cancel(std::string(seen.status.message()));
  const absl::Status served = host_thread_->Join().status();
  const bool has_failed =
      !served.ok() && served != host_thread_->cancel().status();
  // A host that fails closes its links, and that is all that others see. If it
  // failed because of a peer, other members may know better which one.
  const bool is_own =
      failure.blamed_rank < 0 || failure.blamed_rank == parts_.assignment.rank;
  if (has_failed && (is_own || !IsOfPeers(served)))
    return {served, parts_.host->blamed_rank()};
  return failure;
}

SyncProgress ServerGeneration::progress() const {
  SyncProgress progress = {.completed = client_->completed(),
                           .waiting_for_rank = client_->waiting_for_rank()};
  if (host_thread_ == nullptr) return progress;
  progress.completed += parts_.host->taken_messages();
  const int own = parts_.assignment.rank;
  if (progress.waiting_for_rank == own ||
      awaits_host_.load(std::memory_order_relaxed))
    progress.waiting_for_rank = parts_.host->waiting_for_rank();
  if (progress.waiting_for_rank == own) progress.waiting_for_rank = -1;
  return progress;
}

}  // namespace ringmaster
