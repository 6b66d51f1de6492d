// all_reduce_bench: seconds per all-reduce of float32 over TCP on this host, ours and the peers compiled in.
//
//   all_reduce_bench [world_size [rounds]]
//
// Ranks are forked processes. In every round each candidate runs in turn (A B C A B C ...), so that a disturbance of the
// machine hits all; a round's figure is the slowest rank's mean, the printed one the median over rounds. Inputs are
// refilled and results checked on every call, outside the timed part. A round counts only if a fixed piece of arithmetic
// before and after each candidate takes no more than 1.3 times its best. Figures of a shared machine are worth no more
// than their ratios.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "common/transport/tcp.h"
#include "tests/bench/collective/candidate.h"
#include "worker/collective/communicator.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {
namespace {

constexpr float kMaxProbe = 1.3f;
constexpr int kMaxAttempts = 10;

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(120); }

class Ours final : public Candidate {
 public:
  Ours(std::string name, Communicator& communicator)
      : name_(std::move(name)), communicator_(communicator) {}
  std::string name() const override { return name_; }
  absl::Status AllReduce(std::span<float> values) override {
    return communicator_.Run(AllReduceSum(BufferView::Of(values)), Soon());
  }

 private:
  const std::string name_;
  Communicator& communicator_;
};

int CallsFor(int64_t bytes) {
  return static_cast<int>(
      std::clamp<int64_t>((int64_t{16} << 20) / bytes, 1, 200));
}

// The mean of this rank's calls in microseconds. The sum of `world_size` equal inputs is checked at every element.
absl::StatusOr<float> MeanOfCalls(Candidate& candidate,
                                  Communicator& communicator,
                                  std::vector<float>& values, int calls) {
  std::chrono::duration<double, std::micro> total{0};
  for (int call = 0; call < calls; ++call) {
    std::fill(values.begin(), values.end(), static_cast<float>(call + 1));
    RETURN_IF_ERROR(communicator.Run(Barrier(), Soon()));
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(candidate.AllReduce(values));
    total += std::chrono::steady_clock::now() - start;
    const float expected =
        static_cast<float>((call + 1) * communicator.world_size());
    if (!std::all_of(values.begin(), values.end(),
                     [&](float v) { return v == expected; })) {
      return absl::InternalError(
          absl::StrCat(candidate.name(), " gave a wrong sum"));
    }
  }
  return static_cast<float>(total.count() / calls);
}

absl::StatusOr<float> SlowestRank(Communicator& communicator, float own) {
  std::vector<float> all(communicator.world_size(), own);
  RETURN_IF_ERROR(communicator.Run(
      AllGather(BufferView::Of(std::span<float>(all))), Soon()));
  return *std::max_element(all.begin(), all.end());
}

// Microseconds that a fixed piece of arithmetic takes the slowest of as many
// ranks as there are cores: more than its best says that somebody else has them.
absl::StatusOr<float> Probe(Communicator& communicator) {
  static const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  RETURN_IF_ERROR(communicator.Run(Barrier(), Soon()));
  if (communicator.rank() >= cores) return SlowestRank(communicator, 0);
  const auto start = std::chrono::steady_clock::now();
  volatile uint64_t state = 1;
  for (int i = 0; i < 100'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
  }
  const std::chrono::duration<float, std::micro> took =
      std::chrono::steady_clock::now() - start;
  return SlowestRank(communicator, took.count());
}

absl::StatusOr<float> BestProbe(Communicator& communicator) {
  float best = std::numeric_limits<float>::max();
  for (int i = 0; i < 300; ++i) {
    ASSIGN_OR_RETURN(const float probe, Probe(communicator));
    best = std::min(best, probe);
  }
  return best;
}

double MedianOf(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// A candidate's accepted rounds.
using Figures = std::vector<std::vector<float>>;

void PrintRow(int64_t bytes, const Figures& figures) {
  if (figures[0].empty()) {
    std::printf("| %9lld | no round without a disturbance |\n",
                static_cast<long long>(bytes));
    return;
  }
  const double ours = MedianOf(figures[0]);
  std::printf("| %9lld |", static_cast<long long>(bytes));
  for (const std::vector<float>& rounds : figures) {
    const double median = MedianOf(rounds);
    std::printf(" %10.1f us %6.2f GB/s %5.2fx |", median,
                static_cast<double>(bytes) / median / 1e3, median / ours);
  }
  std::printf(" %zu rounds\n", figures[0].size());
  std::fflush(stdout);
}

// All candidates at one size. A round is dropped if the machine was busy with something else around any part of it;
// after `rounds` times kMaxAttempts tries, what there is must do.
absl::StatusOr<Figures> Measure(
    Communicator& communicator,
    const std::vector<std::unique_ptr<Candidate>>& candidates, int64_t bytes,
    int rounds, float best_probe) {
  std::vector<float> values(bytes / sizeof(float));
  for (const auto& candidate : candidates) candidate->Prepare(values);
  Figures figures(candidates.size());
  for (int attempt = 0; attempt <= rounds * kMaxAttempts; ++attempt) {
    std::vector<float> round;
    ASSIGN_OR_RETURN(float worst_probe, Probe(communicator));
    for (const auto& candidate : candidates) {
      ASSIGN_OR_RETURN(const float own, MeanOfCalls(*candidate, communicator,
                                                    values, CallsFor(bytes)));
      ASSIGN_OR_RETURN(const float slowest, SlowestRank(communicator, own));
      ASSIGN_OR_RETURN(const float probe, Probe(communicator));
      round.push_back(slowest);
      worst_probe = std::max(worst_probe, probe);
    }
    if (attempt == 0 || worst_probe > kMaxProbe * best_probe)
      continue;  // the first warms up
    for (size_t i = 0; i < round.size(); ++i) figures[i].push_back(round[i]);
    if (figures[0].size() == static_cast<size_t>(rounds)) break;
  }
  return figures;
}

absl::Status RunRank(const std::vector<Listener>& listeners, int rank,
                     int rounds, const std::string& directory) {
  const auto world_size = static_cast<int>(listeners.size());
  MeshConfig config;
  config.job_id = "bench";
  config.rank = rank;
  config.topology = Topology::OneHost(world_size);
  for (int peer = 0; peer < world_size; ++peer) {
    config.peers.push_back(
        {peer, listeners[static_cast<size_t>(peer)].address().ToString()});
  }
  config.secret = "a benchmark has no secrets";
  config.clock = &Clock::Real();
  config.deadline = Soon();
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Communicator> communicator,
      ConnectMesh(listeners[static_cast<size_t>(rank)], config, nullptr));
  config.generation = 1;
  config.best_transport = TransportLimit::kTcp;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Communicator> over_tcp,
      ConnectMesh(listeners[static_cast<size_t>(rank)], config, nullptr));
  std::vector<std::unique_ptr<Candidate>> candidates;
  candidates.push_back(std::make_unique<Ours>("Ringmaster", *communicator));
  candidates.push_back(std::make_unique<Ours>("Ringmaster TCP", *over_tcp));
  for (auto& peer : MakePeers(rank, world_size, directory))
    candidates.push_back(std::move(peer));
  if (rank == 0) {
    std::printf(
        "%d ranks, %ld cores; microseconds, bytes/time, time relative to "
        "ours\n|     bytes |",
        world_size, sysconf(_SC_NPROCESSORS_ONLN));
    for (const auto& candidate : candidates)
      std::printf(" %-29s |", candidate->name().c_str());
    std::printf("\n");
  }
  ASSIGN_OR_RETURN(const float best_probe, BestProbe(*communicator));
  for (const int64_t kib : {4, 64, 256, 1024, 4096, 16384, 65536}) {
    ASSIGN_OR_RETURN(
        const Figures figures,
        Measure(*communicator, candidates, kib * 1024, rounds, best_probe));
    if (rank == 0) PrintRow(kib * 1024, figures);
  }
  return communicator->Run(Barrier(), Soon());
}

int Main(int world_size, int rounds) {
  char directory[] = "/tmp/all_reduce_bench.XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  std::vector<Listener> listeners;
  for (int rank = 0; rank < world_size; ++rank) {
    absl::StatusOr<Listener> listener = Listener::Listen("127.0.0.1:0");
    if (!listener.ok()) {
      std::fprintf(stderr, "%s\n", listener.status().ToString().c_str());
      return 1;
    }
    listeners.push_back(*std::move(listener));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    if (fork() != 0) continue;
    const absl::Status status = RunRank(listeners, rank, rounds, directory);
    if (!status.ok())
      std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
    std::fflush(stdout);
    _exit(status.ok() ? 0 : 1);
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed |= status;
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  const int world_size = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  if (world_size < 2 || rounds < 1) {
    std::fprintf(stderr,
                 "usage: all_reduce_bench [world_size >= 2 [rounds >= 1]]\n");
    return 2;
  }
  return ringmaster::Main(world_size, rounds);
}
