#include "worker/train/testing/server_ranks.h"

#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parameter_server/testing/channel_pair.h"
#include "common/parameter_server/update_rules.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/member/shard_links.h"
#include "worker/parameter_server/shard_host.h"
#include "worker/train/exchange/server_generation.h"

namespace ringmaster {
namespace {

// The channels of all members, by who made them.
class Channels {
 public:
  // Those of `plan`'s connections; each is made with the first of its two ends.
  std::vector<std::unique_ptr<Channel>> Take(int rank,
                                             const ShardLinkPlan& plan) {
    std::vector<std::unique_ptr<Channel>> channels;
    for (const PeerConnection& connection : plan.connections) {
      const bool is_maker = !connection.address.empty();
      const int lane = connection.first_stripe;
      const Key key = is_maker
                          ? Key(rank, connection.rank, connection.role, lane)
                          : Key(connection.rank, rank, connection.role, lane);
      if (ends_.count(key) == 0) {
        ChannelPair pair = MakeChannelPair(
            Transport::kTcp, {rank, connection.arena}, {connection.rank});
        channels.push_back(std::move(pair.first));
        ends_[key] = std::move(pair.second);
      } else {
        channels.push_back(std::move(ends_[key]));
      }
    }
    return channels;
  }

 private:
  using Key = std::tuple<int, int, LinkRole, int>;
  std::map<Key, std::unique_ptr<Channel>> ends_;
};

RankAssignment AssignmentOf(int rank, const ServerRanksOptions& options,
                            int lanes) {
  RankAssignment assignment;
  assignment.job_id = "job-1";
  assignment.generation = 1;
  assignment.rank = rank;
  assignment.world_size = options.workers;
  for (int i = 0; i < options.servers; ++i) {
    const int host = options.workers + i;
    assignment.shard_placements.hosts.push_back(
        {host, absl::StrCat("127.0.0.1:", 1000 + host)});
  }
  for (int shard = 0; shard < options.servers * lanes; ++shard) {
    ShardPlacement placement = {.primary_rank =
                                    options.workers + shard % options.servers};
    if (options.replicas > 0)
      placement.backup_rank = options.workers + (shard + 1) % options.servers;
    assignment.shard_placements.shards.push_back(placement);
  }
  return assignment;
}

struct Server {
  std::unique_ptr<ShardHost> host;
  ShardLinks links;
  absl::StatusOr<DoneKind> end = absl::UnknownError("not run");
};

absl::StatusOr<GenerationRun::End> RunWorker(const RankAssignment& assignment,
                                             ShardLinks links,
                                             Communicator& communicator,
                                             RankResult& result) {
  const CancelToken cancel;
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerGeneration> servers,
                   ServerGeneration::Create({.assignment = assignment,
                                             .state = *result.state,
                                             .communicator = communicator,
                                             .cancel = cancel,
                                             .clock = Clock::Real(),
                                             .trace = result.trace},
                                            std::move(links)));
  RETURN_IF_ERROR(servers->sync().Begin());
  return TrainRank(communicator, servers->sync(), result);
}

}  // namespace

std::vector<std::unique_ptr<RankResult>> RunServerRanks(
    const v1::TrainProgram& program, const ServerRanksOptions& options) {
  Channels channels;
  const int lanes = LanesOf(program);
  const auto links_of = [&](int rank) {
    const ShardLinkPlan plan =
        PlanShardLinks(AssignmentOf(rank, options, lanes), lanes, {}).value();
    return AssembleShardLinks(rank, plan, channels.Take(rank, plan)).value();
  };
  std::vector<std::unique_ptr<RankResult>> results;
  std::vector<ShardLinks> links;
  WorldOfThreads::Options world_options;
  world_options.world_size = options.workers;
  for (int rank = 0; rank < options.workers; ++rank) {
    results.push_back(std::make_unique<RankResult>());
    results.back()->state =
        TrainingState::Create(ParseProgram(program).value()).value();
    links.push_back(links_of(rank));
  }
  const CancelToken cancel;
  std::vector<Server> servers(static_cast<size_t>(options.servers));
  std::vector<std::thread> threads;
  for (int i = 0; i < options.servers; ++i) {
    Server& server = servers[static_cast<size_t>(i)];
    const RankAssignment assignment =
        AssignmentOf(options.workers + i, options, lanes);
    server.host = MakeShardHost(Clock::Real());
    RM_CHECK(server.host->Prepare(program, HostAssignmentOf(assignment)).ok(),
             "a new host has nothing to fail with");
    server.links = links_of(assignment.rank);
    threads.emplace_back([&server, &cancel] {
      server.end = server.host->Run(std::move(server.links.host), cancel);
    });
  }
  const std::unique_ptr<WorldOfThreads> world =
      WorldOfThreads::Create(world_options).value();
  world->RunAll([&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    RankResult& result = *results[rank];
    result.end = RunWorker(AssignmentOf(communicator.rank(), options, lanes),
                           std::move(links[rank]), communicator, result);
    if (!result.end.ok())
      communicator.Abort(std::string(result.end.status().message()));
    return result.end.status();
  });
  for (std::thread& thread : threads) thread.join();
  for (const Server& server : servers) {
    for (const std::unique_ptr<RankResult>& result : results) {
      if (result->end.ok() && !server.end.ok())
        result->end = server.end.status();
    }
  }
  return results;
}

}  // namespace ringmaster
