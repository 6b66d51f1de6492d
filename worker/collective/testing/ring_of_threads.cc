#include "worker/collective/testing/ring_of_threads.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_link.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_ring.h"
#include "worker/collective/host_communicator.h"

namespace ringmaster {
namespace {

Clock* ClockOf(const RingOfThreads::Options& options) {
  return options.clock != nullptr ? options.clock : &Clock::Real();
}

Trace* TraceOf(const RingOfThreads::Options& options, int rank) {
  return options.traces.empty() ? nullptr : options.traces[rank];
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingOfThreads>> RingOfThreads::Create(
    const Options& options) {
  std::unique_ptr<RingOfThreads> ring(new RingOfThreads());
  ring->communicators_.resize(options.world_size);
  RETURN_IF_ERROR(options.transport == Transport::kTcp
                      ? ring->ConnectTcp(options)
                      : ring->ConnectLoopback(options));
  return ring;
}

absl::Status RingOfThreads::ConnectLoopback(const Options& options) {
  const int n = options.world_size;
  std::vector<std::unique_ptr<Link>> next(n);
  std::vector<std::unique_ptr<Link>> prev(n);
  for (int rank = 0; n > 1 && rank < n; ++rank) {
    const int next_rank = (rank + 1) % n;
    ASSIGN_OR_RETURN(auto pair, LoopbackPair(absl::StrCat("rank ", next_rank),
                                             absl::StrCat("rank ", rank)));
    next[rank] = std::move(pair.first);
    if (options.decorate_next)
      next[rank] = options.decorate_next(rank, std::move(next[rank]));
    prev[next_rank] = std::move(pair.second);
    if (options.decorate_prev) {
      prev[next_rank] =
          options.decorate_prev(next_rank, std::move(prev[next_rank]));
    }
  }
  for (int rank = 0; rank < n; ++rank) {
    HostCommunicator::Options member;
    member.job_id = options.job_id;
    member.generation = options.generations.empty() ? options.generation
                                                    : options.generations[rank];
    member.rank = rank;
    member.world_size = n;
    member.clock = ClockOf(options);
    member.trace = TraceOf(options, rank);
    communicators_[rank] = std::make_unique<HostCommunicator>(
        member, std::move(next[rank]), std::move(prev[rank]));
  }
  return absl::OkStatus();
}

absl::Status RingOfThreads::ConnectTcp(const Options& options) {
  const int n = options.world_size;
  std::vector<Listener> listeners;
  for (int rank = 0; rank < n; ++rank) {
    ASSIGN_OR_RETURN(Listener listener, Listener::Listen("127.0.0.1:0"));
    listeners.push_back(std::move(listener));
  }
  std::vector<absl::Status> statuses(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      RingConfig config;
      config.job_id = options.job_id;
      config.generation = options.generation;
      config.rank = rank;
      config.world_size = n;
      config.secret = "the secret of a ring of threads";
      config.next_address = listeners[(rank + 1) % n].address().ToString();
      config.clock = ClockOf(options);
      config.deadline = config.clock->Now() + absl::Seconds(30);
      config.trace = TraceOf(options, rank);
      auto communicator = ConnectRing(listeners[rank], config, nullptr);
      statuses[rank] = communicator.status();
      if (communicator.ok()) communicators_[rank] = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

std::vector<absl::Status> RingOfThreads::RunAll(
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
