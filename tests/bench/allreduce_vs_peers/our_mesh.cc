#include "tests/bench/allreduce_vs_peers/our_mesh.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "common/clock/clock.h"
#include "common/plan/topology.h"
#include "common/status/status_macros.h"
#include "worker/collective/cost_model.h"

namespace ringmaster {
namespace {

class Ours final : public Candidate {
 public:
  Ours(std::string name, Communicator& communicator, const OurWay& way)
      : name_(std::move(name)), communicator_(communicator), way_(way) {}
  std::string name() const override { return name_; }
  int64_t max_bytes() const override {
    return way_.arena == nullptr ? Candidate::max_bytes()
                                 : static_cast<int64_t>(way_.arena->bytes());
  }
  std::span<float> BufferFor(std::span<float> heap) override {
    if (way_.arena == nullptr) return heap;
    return {reinterpret_cast<float*>(way_.arena->at()), heap.size()};
  }
  absl::Status AllReduce(std::span<float> values) override {
    CollectiveRequest request = AllReduceSum(BufferView::Of(values));
    request.wire = way_.wire;
    request.algorithm = way_.algorithm;
    return communicator_.Run(request, PatientDeadline());
  }

 private:
  const std::string name_;
  Communicator& communicator_;
  const OurWay way_;
};

// Of the machine in docs/benchmarks/collectives.md: which algorithms win at which sizes (--mode=sweep) agrees with them.
CollectiveCosts CostsOf(Transport transport) {
  CollectiveCosts costs;
  costs.cores_per_host = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  costs.reduce_seconds_per_byte = 5e-11;
  switch (transport) {
    case Transport::kSharedMemory:
      costs.local = {1e-6, 8e-11};
      break;
    case Transport::kUnix:
      costs.local = {4e-6, 15e-11};
      break;
    case Transport::kLoopback:
    case Transport::kTcp:
      costs.local = {8e-6, 2e-10};
      break;
  }
  return costs;
}

}  // namespace

MonotonicTime PatientDeadline() {
  return Clock::Real().Now() + absl::Seconds(120);
}

absl::StatusOr<std::vector<Listener>> ListenForAll(int world_size) {
  std::vector<Listener> listeners;
  for (int rank = 0; rank < world_size; ++rank) {
    ASSIGN_OR_RETURN(Listener listener, Listener::Listen("127.0.0.1:0"));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectOurs(
    const std::vector<Listener>& listeners, int rank, int64_t generation,
    Transport transport, const SharedSegment* arena) {
  MeshConfig config;
  config.job_id = "bench";
  config.generation = generation;
  config.rank = rank;
  config.topology = Topology::OneHost(static_cast<int>(listeners.size()));
  for (size_t peer = 0; peer < listeners.size(); ++peer) {
    config.peers.push_back(
        {static_cast<int>(peer), listeners[peer].address().ToString()});
  }
  config.secret = "a benchmark has no secrets";
  config.deadline = PatientDeadline();
  config.best_transport = transport;
  config.arena = arena;
  config.policy.costs = CostsOf(transport);
  config.clock = &Clock::Real();
  return ConnectMesh(listeners[static_cast<size_t>(rank)], config, nullptr);
}

const char* ShortName(Transport transport) {
  return transport == Transport::kSharedMemory ? "shm"
                                               : TransportName(transport);
}

std::unique_ptr<Candidate> OurCandidate(std::string name,
                                        Communicator& communicator,
                                        const OurWay& way) {
  return std::make_unique<Ours>(std::move(name), communicator, way);
}

int ForkRanks(
    int world_size, const std::function<absl::Status(int rank)>& run_rank,
    const std::function<void(const std::vector<int>& pids)>& meanwhile) {
  std::fflush(stdout);
  std::vector<int> pids;
  for (int rank = 0; rank < world_size; ++rank) {
    const int pid = fork();
    if (pid > 0) pids.push_back(pid);
    if (pid != 0) continue;
    const absl::Status status = run_rank(rank);
    if (!status.ok())
      std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
    std::fflush(stdout);
    _exit(status.ok() ? 0 : 1);
  }
  if (meanwhile) meanwhile(pids);
  int failed = world_size - static_cast<int>(pids.size());
  for (const int pid : pids) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) ++failed;
  }
  return failed;
}

}  // namespace ringmaster
