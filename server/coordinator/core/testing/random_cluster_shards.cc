// Those who hold shards of the parameters in a RandomCluster.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/testing/random_cluster.h"

namespace ringmaster::coordinator {
namespace {

// Workers that have their own clocks agree every this many steps.
constexpr int64_t kAgreementSteps = 3;

}  // namespace

RandomCluster::Process* RandomCluster::ProcessAt(int64_t generation, int rank) {
  for (auto& [name, process] : processes_) {
    if (process.generation == generation && process.rank == rank) {
      return &process;
    }
  }
  return nullptr;
}

HaltedReceived RandomCluster::HaltedOf(const Process& process) {
  HaltedReceived halted{process.session, process.generation, process.applied,
                        process.complete};
  for (const auto& [shard, step] : process.shards) {
    halted.shards.push_back({shard, step});
  }
  return halted;
}

void RandomCluster::PrepareShards(Process& process,
                                  const SendAssignment& assignment) {
  const int64_t resume_step = assignment.resume_step;
  const bool is_lockstep =
      core_.state().FindJob(assignment.job_id)->sharding.is_lockstep;
  std::map<int, int64_t> kept;
  for (size_t i = 0; i < assignment.placements->size(); ++i) {
    const ShardPlacement& placement = (*assignment.placements)[i];
    const int shard = static_cast<int>(i);
    const int rank = assignment.self.rank;
    const auto held = process.shards.find(shard);
    const bool is_source = placement.source_rank == rank;
    if (is_source && held == process.shards.end()) {
      Violate(absl::StrCat(process.name, " is to give shard ", shard,
                           ", which it does not hold"));
    }
    // One that it is to hold no more stays until the new holders have theirs.
    if (placement.source_rank < 0 || held == process.shards.end()) continue;
    const int64_t step = held->second;
    if (is_source &&
        (step < resume_step || (is_lockstep && step > resume_step + 1))) {
      Violate(absl::StrCat(process.name, " holds step ", step, " of shard ",
                           shard, ", but is to go on after ", resume_step));
    }
    if (is_lockstep && (step < resume_step || step > resume_step + 1)) continue;
    kept[shard] = resume_step;
  }
  process.shards = std::move(kept);
}

void RandomCluster::Serve(Process& process) {
  Exchange& exchange = exchanges_[process.generation];
  if (exchange.placements == nullptr) return;
  for (size_t i = 0; i < exchange.placements->size(); ++i) {
    // Workers hear of it with the answers of primaries.
    exchange.has_leaving_server |=
        process.role == v1::ROLE_PARAMETER_SERVER && process.is_leaving &&
        (*exchange.placements)[i].primary_rank == process.rank;
    if (Chance(70)) ServeShard(process, exchange, static_cast<int>(i));
  }
  DropSpares(process, exchange);
  const std::optional<int64_t> served = LeastServedStep(process, exchange);
  if (process.role == v1::ROLE_WORKER || !served.has_value()) return;
  process.applied = process.complete = *served;
}

bool RandomCluster::IsHolder(const Process& process,
                             const ShardPlacement& placement) {
  return placement.primary_rank == process.rank ||
         placement.backup_rank == process.rank;
}

std::optional<int64_t> RandomCluster::LeastServedStep(
    const Process& process, const Exchange& exchange) {
  std::optional<int64_t> least;
  for (const auto& [shard, step] : process.shards) {
    if (IsHolder(process, (*exchange.placements)[static_cast<size_t>(shard)]))
      least = std::min(least.value_or(step), step);
  }
  return least;
}

// The second step of a generation is pushed once all holders have the first.
void RandomCluster::DropSpares(Process& process, const Exchange& exchange) {
  const int64_t served = LeastServedStep(process, exchange).value_or(0);
  if (served < exchange.resume_step + 2) return;
  std::erase_if(process.shards, [&](const auto& held) {
    const ShardPlacement& placement =
        (*exchange.placements)[static_cast<size_t>(held.first)];
    const bool is_given = placement.source_rank == process.rank;
    if (is_given || IsHolder(process, placement)) return false;
    Count("spare dropped");
    return true;
  });
}

void RandomCluster::ServeShard(Process& process, Exchange& exchange,
                               int shard) {
  const ShardPlacement& placement =
      (*exchange.placements)[static_cast<size_t>(shard)];
  const bool is_primary = placement.primary_rank == process.rank;
  if (!IsHolder(process, placement)) return;
  const auto holder = [&](int rank) -> Process* {
    Process* const other = ProcessAt(process.generation, rank);
    return other != nullptr && other->shards.contains(shard) ? other : nullptr;
  };
  const auto held = process.shards.find(shard);
  if (held == process.shards.end()) {
    if (placement.source_rank < 0) {
      // Rank 0 loads it: a checkpoint, if there is one.
      process.shards[shard] = exchange.resume_step > 0
                                  ? exchange.resume_step
                                  : exchange.checkpoint_step;
    } else if (const Process* const source = holder(placement.source_rank)) {
      Count("shard copied");
      process.shards[shard] = source->shards.at(shard);
    }
    return;
  }
  const int64_t pushed = *std::min_element(exchange.contributed.begin(),
                                           exchange.contributed.end());
  if (is_primary) {
    // One step at a time: the next is pushed only once this one was answered.
    held->second = std::max(held->second, pushed);
  } else if (const Process* const primary = holder(placement.primary_rank)) {
    held->second = std::max(held->second, primary->shards.at(shard));
  }
  const Process* const primary = holder(placement.primary_rank);
  const Process* const backup = holder(placement.backup_rank);
  if (primary == nullptr || (placement.backup_rank >= 0 && backup == nullptr)) {
    return;
  }
  int64_t step = primary->shards.at(shard);
  if (backup != nullptr) step = std::min(step, backup->shards.at(shard));
  int64_t& answered = exchange.answered[static_cast<size_t>(shard)];
  answered = std::max(answered, step);
}

void RandomCluster::EndServing(Process& process) {
  const Exchange& exchange = exchanges_[process.generation];
  const auto& done = exchange.done;
  if (std::find(done.begin(), done.end(), Exchange::Done::kNo) != done.end()) {
    return;
  }
  if (done.front() != Exchange::Done::kDrained) {
    Finish(process, done.front() == Exchange::Done::kStopped);
  } else {
    process.mode = Mode::kHalted;
    SayAgain(process);
  }
}

void RandomCluster::TrainByOwnClock(Process& process) {
  Exchange& exchange = exchanges_[process.generation];
  // It begins with what it pulls.
  if (!IsAnswered(exchange, exchange.resume_step)) return;
  if (exchange.resume_step == 0 && process.applied == 0 &&
      exchange.checkpoint_step > 0) {
    process.complete = exchange.checkpoint_step;
    Apply(process, process.complete);
    if (process.applied >= exchange.total_steps) return;
  }
  int64_t& contributed = exchange.contributed[process.rank];
  const int64_t slowest = *std::min_element(exchange.contributed.begin(),
                                            exchange.contributed.end());
  contributed = std::max(contributed, process.applied);
  exchange.recorded[process.rank] = contributed;
  if (process.applied % kAgreementSteps == 0 && slowest < process.applied) {
    return;
  }
  process.complete = process.applied + 1;
  Apply(process, process.complete);
  contributed = process.applied;
  exchange.recorded[process.rank] = contributed;
}

}  // namespace ringmaster::coordinator
