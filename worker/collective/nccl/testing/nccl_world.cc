#include "worker/collective/nccl/testing/nccl_world.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {

MonotonicTime InTime() { return Clock::Real().Now() + absl::Seconds(20); }

absl::StatusOr<std::unique_ptr<NcclWorld>> NcclWorld::Create(
    const Options& options) {
  std::unique_ptr<NcclWorld> world(new NcclWorld());
  world->options_ = options;
  ASSIGN_OR_RETURN(world->hosts_,
                   WorldOfThreads::Create({.world_size = options.world_size}));
  for (int rank = 0; rank < options.world_size; ++rank) {
    auto made = std::make_unique<NcclRank>();
    const int device = options.device_of_rank.empty()
                           ? rank
                           : options.device_of_rank[static_cast<size_t>(rank)];
    ASSIGN_OR_RETURN(made->device, CudaDevice::Open(device));
    ASSIGN_OR_RETURN(made->compute, CudaStream::Create("compute"));
    made->trace = std::make_unique<Trace>();
    world->ranks_.push_back(std::move(made));
  }
  return world;
}

std::vector<absl::Status> NcclWorld::Connect() {
  std::vector<absl::Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  const MonotonicTime deadline = Clock::Real().Now() + options_.timeout;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto& present = options_.present;
    if (!present.empty() &&
        std::find(present.begin(), present.end(), i) == present.end()) {
      continue;
    }
    threads.emplace_back([this, i, deadline, &statuses] {
      NcclRank& rank = *ranks_[i];
      auto communicator = NcclCommunicator::Create(
          {.device = rank.device.get(),
           .compute = rank.compute.get(),
           .generation = 3,
           .arena = options_.arena ? options_.arena(rank) : BufferView(),
           .clock = &Clock::Real(),
           .trace = rank.trace.get(),
           .abort_timeout = options_.abort_timeout,
           .retired = options_.retire ? &rank.retired : nullptr,
           .on_abort_hung =
               [&rank](const absl::Status& why) { rank.hung = why; }},
          hosts_->Take(static_cast<int>(i)), deadline, &rank.cancel);
      statuses[i] = communicator.status();
      if (communicator.ok()) rank.communicator = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<absl::Status> NcclWorld::RunAll(
    const std::function<absl::Status(NcclRank&)>& body) {
  std::vector<absl::Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i]->communicator == nullptr) continue;
    threads.emplace_back([this, i, &body, &statuses] {
      statuses[i] = ranks_[i]->device->MakeCurrent();
      if (statuses[i].ok()) statuses[i] = body(*ranks_[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace ringmaster
