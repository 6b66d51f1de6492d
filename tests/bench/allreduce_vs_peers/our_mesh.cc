#include "tests/bench/allreduce_vs_peers/our_mesh.h"

#include <unistd.h>

#include <utility>

#include "common/clock/clock.h"
#include "worker/bench/local_mesh.h"
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

// The costs of the machine in docs/benchmarks/collectives.md. They agree with --mode=sweep on which algorithm wins at
// which size.
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

absl::StatusOr<std::unique_ptr<Communicator>> ConnectOurs(
    const std::vector<Listener>& listeners, int rank, int64_t generation,
    Transport transport, const SharedSegment* arena, FrameIntegrity integrity) {
  return ConnectLocalRank(listeners, rank,
                          {.generation = generation,
                           .best_transport = transport,
                           .arena = arena,
                           .policy = {.costs = CostsOf(transport)},
                           .integrity = integrity});
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

}  // namespace ringmaster
