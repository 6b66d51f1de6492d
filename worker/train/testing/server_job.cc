#include "worker/train/testing/server_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "worker/parameter_server/shard_host.h"
#include "worker/parameter_server/shard_runner.h"
#include "worker/train/step/job_trainer.h"

namespace ringmaster {

ServerJob::ServerJob(const Options& options,
                     TrainerWorkers::AcceleratorFactory open_accelerator)
    : options_(options), open_accelerator_(std::move(open_accelerator)) {
  const int members = options.workers + options.servers;
  held_.resize(static_cast<size_t>(members));
  for (int member = 0; member < members; ++member) {
    listeners_.push_back(
        std::make_unique<Listener>(Listener::Listen("127.0.0.1:0").value()));
    trainers_.push_back(MakeTrainer(member));
  }
}

std::unique_ptr<JobRunner> ServerJob::MakeTrainer(int member) {
  const Listener& listener = *listeners_[static_cast<size_t>(member)];
  std::unique_ptr<ShardHost> host = MakeShardHost(Clock::Real());
  if (member >= options_.workers)
    return MakeShardRunner(Clock::Real(), listener, std::move(host));
  return MakeJobTrainer(
      Clock::Real(), listener, /*threads=*/1, std::move(host),
      open_accelerator_ ? open_accelerator_(member) : nullptr);
}

void ServerJob::Replace(int member) {
  trainers_[static_cast<size_t>(member)] = MakeTrainer(member);
  held_[static_cast<size_t>(member)].clear();
}

void ServerJob::Remove(int member) {
  trainers_[static_cast<size_t>(member)].reset();
  held_[static_cast<size_t>(member)].clear();
}

std::vector<int> ServerJob::MembersThatAreThere() const {
  std::vector<int> there;
  for (int member = 0; member < members(); ++member) {
    if (trainers_[static_cast<size_t>(member)] != nullptr)
      there.push_back(member);
  }
  return there;
}

int64_t ServerJob::resume_step() const {
  std::vector<int> copies(static_cast<size_t>(shard_count()));
  int64_t least = INT64_MAX;
  for (const std::vector<HeldShard>& held : held_) {
    for (const HeldShard& shard : held) {
      ++copies[static_cast<size_t>(shard.shard)];
      least = std::min(least, shard.complete_step);
    }
  }
  const bool is_whole = std::count(copies.begin(), copies.end(), 0) == 0;
  return is_whole ? least : 0;
}

ShardPlacements ServerJob::Place(const std::vector<int>& by_rank) const {
  ShardPlacements placements;
  std::vector<int> hosts;  // ranks
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!is_host(by_rank[rank])) continue;
    const auto member = static_cast<size_t>(by_rank[rank]);
    hosts.push_back(static_cast<int>(rank));
    placements.hosts.push_back(
        {static_cast<int>(rank),
         absl::StrCat("127.0.0.1:", listeners_[member]->port())});
  }
  bool is_whole = true;
  for (int shard = 0; shard < shard_count(); ++shard) {
    ShardPlacement placement;
    const auto at = static_cast<size_t>(shard) % hosts.size();
    placement.primary_rank = hosts[at];
    if (options_.replicas > 0 && hosts.size() > 1)
      placement.backup_rank = hosts[(at + 1) % hosts.size()];
    for (const int host : hosts) {
      const auto member =
          static_cast<size_t>(by_rank[static_cast<size_t>(host)]);
      for (const HeldShard& held : held_[member]) {
        if (held.shard == shard && placement.source_rank < 0)
          placement.source_rank = host;
      }
    }
    is_whole &= placement.source_rank >= 0;
    placements.shards.push_back(placement);
  }
  if (!is_whole) {
    for (ShardPlacement& placement : placements.shards)
      placement.source_rank = -1;
  }
  return placements;
}

RankAssignment ServerJob::Assign(const std::vector<int>& by_rank,
                                 size_t rank) const {
  const int workers = static_cast<int>(
      std::count_if(by_rank.begin(), by_rank.end(),
                    [&](int member) { return member < options_.workers; }));
  RankAssignment assignment;
  assignment.generation = generation_;
  assignment.job_id = "job-1";
  assignment.rank = assignment.data_index = assignment.local_rank =
      static_cast<int>(rank);
  assignment.world_size = workers;
  assignment.local_world_size = static_cast<int>(by_rank.size());
  assignment.ranks_per_host = {workers};
  for (int peer = 0; peer < workers; ++peer) {
    if (static_cast<size_t>(peer) == rank) continue;
    const auto member = static_cast<size_t>(by_rank[static_cast<size_t>(peer)]);
    assignment.peers.push_back(
        {.rank = peer,
         .address = absl::StrCat("127.0.0.1:", listeners_[member]->port())});
  }
  assignment.secret = absl::StrCat("secret of generation ", generation_);
  assignment.resume_step = resume_step();
  assignment.shard_placements = Place(by_rank);
  return assignment;
}

std::vector<RunOutcome> ServerJob::RunGeneration(
    const v1::TrainProgram& program, const std::function<void()>& meanwhile) {
  ++generation_;
  const std::vector<int> by_rank = MembersThatAreThere();
  std::vector<RunOutcome> outcomes(static_cast<size_t>(members()));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    threads.emplace_back([&, rank, assignment = Assign(by_rank, rank)] {
      const auto member = static_cast<size_t>(by_rank[rank]);
      const absl::StatusOr<PlanAgreement> agreement =
          trainers_[member]->Prepare(SpecOf(program), assignment);
      ASSERT_TRUE(agreement.ok()) << agreement.status();
      outcomes[member] = trainers_[member]->Run();
    });
  }
  meanwhile();
  for (std::thread& thread : threads) thread.join();
  for (const int member : by_rank) {
    const auto index = static_cast<size_t>(member);
    held_[index] = trainers_[index]->progress().held_shards;
  }
  return outcomes;
}

std::vector<RunOutcome> ServerJob::RunUntilStep(const v1::TrainProgram& program,
                                                int member, int64_t step) {
  // At least one of this generation's own.
  const int64_t begin = resume_step();
  const int64_t goal = std::max(step, begin + 1);
  // However late this thread gets a core, nobody goes on to the end before the
  // halt: in lockstep the next step is not begun, else not the last one.
  const bool is_lockstep =
      program.parameter_server().consistency() != v1::CONSISTENCY_SSP &&
      program.parameter_server().consistency() != v1::CONSISTENCY_ASYNC;
  const int64_t last = is_lockstep ? goal : program.steps() - 1;
  FailPoint::Arm("train.step", FailPoint::Action::kHang,
                 options_.workers * (last - begin) + 1);
  return RunGeneration(program, [&] {
    const auto is_there = [&] {
      const TrainProgress progress = trainer(member).progress();
      return progress.generation == generation_ &&
             progress.applied_step >= goal;
    };
    while (!is_there()) std::this_thread::yield();
    for (const int each : MembersThatAreThere())
      trainer(each).Abort(generation_, "the test halts it");
    FailPoint::Disarm("train.step");
  });
}

}  // namespace ringmaster
