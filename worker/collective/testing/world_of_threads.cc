#include "worker/collective/testing/world_of_threads.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_mesh.h"
#include "worker/collective/host_communicator.h"

namespace ringmaster {
namespace {

Clock* ClockOf(const WorldOfThreads::Options& options) {
  return options.clock != nullptr ? options.clock : &Clock::Real();
}

Trace* TraceOf(const WorldOfThreads::Options& options, size_t rank) {
  return options.traces.empty() ? nullptr : options.traces[rank];
}

Topology TopologyOf(const WorldOfThreads::Options& options) {
  return options.host_of_rank.empty() ? Topology::OneHost(options.world_size)
                                      : Topology(options.host_of_rank);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorldOfThreads>> WorldOfThreads::Create(
    const Options& options) {
  std::unique_ptr<WorldOfThreads> world(new WorldOfThreads());
  world->communicators_.resize(static_cast<size_t>(options.world_size));
  RETURN_IF_ERROR(options.transport == Transport::kLoopback
                      ? world->ConnectLoopback(options)
                      : world->ConnectSockets(options));
  return world;
}

absl::Status WorldOfThreads::ConnectLoopback(const Options& options) {
  const Topology topology = TopologyOf(options);
  const auto n = static_cast<size_t>(options.world_size);
  std::vector<std::vector<std::unique_ptr<Channel>>> channels(n);
  for (auto& of_rank : channels) of_rank.resize(n);
  const auto channel_of = [&](int rank, int peer, std::unique_ptr<Link> link) {
    if (options.decorate) link = options.decorate(rank, peer, std::move(link));
    // Sockets have keys of their own, by their handshakes.
    const FrameKeys keys = {};
    return std::make_unique<StreamChannel>(
        rank, std::move(link), Transport::kLoopback, options.integrity, &keys);
  };
  for (int rank = 0; rank < options.world_size; ++rank) {
    for (const int peer : PeersOf(rank, topology)) {
      if (peer < rank) continue;
      ASSIGN_OR_RETURN(auto pair, LoopbackPair(absl::StrCat("rank ", peer),
                                               absl::StrCat("rank ", rank)));
      const auto a = static_cast<size_t>(rank);
      const auto b = static_cast<size_t>(peer);
      channels[a][b] = channel_of(rank, peer, std::move(pair.first));
      channels[b][a] = channel_of(peer, rank, std::move(pair.second));
    }
  }
  for (size_t rank = 0; rank < n; ++rank) {
    HostCommunicator::Options member;
    member.job_id = options.job_id;
    member.generation = options.generations.empty() ? options.generation
                                                    : options.generations[rank];
    member.rank = static_cast<int>(rank);
    member.topology = topology;
    member.policy.algorithm = options.algorithm;
    member.clock = ClockOf(options);
    member.trace = TraceOf(options, rank);
    communicators_[rank] =
        std::make_unique<HostCommunicator>(member, std::move(channels[rank]));
  }
  return absl::OkStatus();
}

absl::Status WorldOfThreads::ConnectSockets(const Options& options) {
  const auto n = static_cast<size_t>(options.world_size);
  std::vector<Listener> listeners;
  std::vector<PeerAddress> peers;
  for (int rank = 0; rank < options.world_size; ++rank) {
    ASSIGN_OR_RETURN(Listener listener, Listener::Listen("127.0.0.1:0"));
    peers.push_back({rank, listener.address().ToString()});
    listeners.push_back(std::move(listener));
    if (options.arena_bytes == 0) continue;
    ASSIGN_OR_RETURN(SharedSegment arena,
                     SharedSegment::Create("test arena", options.arena_bytes));
    arenas_.push_back(std::move(arena));
  }
  std::vector<absl::Status> statuses(n);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      MeshConfig config;
      config.job_id = options.job_id;
      config.generation = options.generation;
      config.rank = static_cast<int>(rank);
      config.topology = TopologyOf(options);
      config.peers = peers;
      config.secret = "the secret of a world of threads";
      config.best_transport = options.transport;
      config.stripes = options.stripes;
      config.integrity = options.integrity;
      config.policy.algorithm = options.algorithm;
      config.clock = ClockOf(options);
      config.deadline = config.clock->Now() + absl::Seconds(30);
      config.trace = TraceOf(options, rank);
      if (!arenas_.empty()) config.arena = &arenas_[rank];
      auto communicator = ConnectMesh(listeners[rank], config, nullptr);
      statuses[rank] = communicator.status();
      if (communicator.ok()) communicators_[rank] = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

std::vector<absl::Status> WorldOfThreads::RunAll(
    const std::function<absl::Status(Communicator&)>& body) {
  std::vector<absl::Status> statuses(communicators_.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < communicators_.size(); ++rank) {
    if (communicators_[rank] == nullptr) continue;
    threads.emplace_back(
        [&, rank] { statuses[rank] = body(*communicators_[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace ringmaster
