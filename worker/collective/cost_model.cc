#include "worker/collective/cost_model.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/plan/fold.h"
#include "common/plan/host_chunks.h"
#include "common/status/check.h"
#include "common/tensor/dtype.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

// If a rank sends or takes several messages at once, each but the first costs
// this part of a latency: the overhead in LogP (Culler et al., 1993). The rest
// passes for all of them together.
constexpr double kOverheadShare = 1.0 / 8;

// A rank's work in one all-reduce, in parts of the buffer.
struct Load {
  double local_sent = 0;
  double local_received = 0;
  double remote_sent = 0;
  double remote_received = 0;
  double copied = 0;
  double reduced = 0;
};

class Prediction {
 public:
  Prediction(const Topology& topology, const CollectiveCosts& costs)
      : topology_(topology),
        costs_(costs),
        n_(topology.world_size()),
        loads_(static_cast<size_t>(n_)) {}

  void Ring();
  void Direct();
  void Exchange();
  void GatherBroadcast();
  void HalvingDoubling();
  void Hierarchical();

  [[nodiscard]] double Seconds(int64_t bytes) const;

 private:
  [[nodiscard]] double LatencyOf(int a, int b) const {
    return topology_.AreTogether(a, b) ? costs_.local.latency
                                       : costs_.remote.latency;
  }
  // Returns the time until `messages` to or from as many others have arrived.
  [[nodiscard]] double LatencyOfMany(double latency, int messages) const {
    return latency * (1 + (messages - 1) * kOverheadShare);
  }
  [[nodiscard]] double WorstLatency() const {
    return topology_.host_count() > 1 ? costs_.remote.latency
                                      : costs_.local.latency;
  }
  [[nodiscard]] Load& LoadOf(int rank) {
    return loads_[static_cast<size_t>(rank)];
  }
  void Send(int from, int to, double part);
  // Everybody sends `part` of the buffer to everybody else.
  void SendToAll(double part);
  [[nodiscard]] double SecondsPerByte(const std::vector<int>& ranks) const;

  const Topology& topology_;
  const CollectiveCosts& costs_;
  const int n_;
  std::vector<Load> loads_;
  double latency_ = 0;
};

void Prediction::Send(int from, int to, double part) {
  if (topology_.AreTogether(from, to)) {
    LoadOf(from).local_sent += part;
    LoadOf(to).local_received += part;
  } else {
    LoadOf(from).remote_sent += part;
    LoadOf(to).remote_received += part;
  }
}

void Prediction::SendToAll(double part) {
  for (int from = 0; from < n_; ++from) {
    for (int to = 0; to < n_; ++to) {
      if (from != to) Send(from, to, part);
    }
  }
}

// 2(n-1) messages in a row: a chunk passes every hop but one, twice.
void Prediction::Ring() {
  double least = WorstLatency();
  for (int rank = 0; rank < n_; ++rank) {
    const int next_rank = (rank + 1) % n_;
    Send(rank, next_rank, 2.0 * (n_ - 1) / n_);
    LoadOf(rank).reduced += 1.0 * (n_ - 1) / n_;
    const double latency = LatencyOf(rank, next_rank);
    latency_ += 2 * latency;
    least = std::min(least, latency);
  }
  latency_ -= 2 * least;
}

void Prediction::Direct() {
  SendToAll(2.0 / n_);
  for (Load& load : loads_) load.reduced += 1.0 * (n_ - 1) / n_;
  latency_ = 2 * LatencyOfMany(WorstLatency(), n_ - 1);
}

// Everybody adds all, and copies its own to send it.
void Prediction::Exchange() {
  SendToAll(1);
  for (Load& load : loads_) {
    load.reduced += n_ - 1;
    load.copied += 1;
  }
  latency_ = LatencyOfMany(WorstLatency(), n_ - 1);
}

void Prediction::GatherBroadcast() {
  for (int rank = 1; rank < n_; ++rank) {
    Send(rank, 0, 1);
    Send(0, rank, 1);
  }
  LoadOf(0).reduced += n_ - 1;
  latency_ = 2 * LatencyOfMany(WorstLatency(), n_ - 1);
}

void Prediction::HalvingDoubling() {
  const Fold fold(n_);
  std::vector<double> slowest(static_cast<size_t>(fold.levels()), 0);
  double fold_latency = 0;
  for (int rank = 0; rank < n_; ++rank) {
    if (fold.IsFolded(rank)) {
      Send(rank, rank + 1, 1);
      Send(rank + 1, rank, 1);
      LoadOf(rank + 1).reduced += 1;
      fold_latency = std::max(fold_latency, LatencyOf(rank, rank + 1));
      continue;
    }
    double part = 1;
    for (int level = 0; level < fold.levels(); ++level) {
      const int peer = fold.RankOf(fold.PlaceOf(rank) ^ (1 << level));
      part /= 2;
      Send(rank, peer, 2 * part);  // there and back
      LoadOf(rank).reduced += part;
      double& latency = slowest[static_cast<size_t>(level)];
      latency = std::max(latency, LatencyOf(rank, peer));
    }
  }
  latency_ = 2 * fold_latency;
  for (const double latency : slowest) latency_ += 2 * latency;
}

void Prediction::Hierarchical() {
  const int hosts = topology_.host_count();
  if (hosts == 1) return Direct();
  const HostChunks owners(topology_);
  const int chunks = owners.chunk_count();
  const double part = 1.0 / chunks;
  for (int host = 0; host < hosts; ++host) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int owner = owners.OwnerOf(chunk, host);
      for (const int peer : topology_.RanksOf(host)) {
        if (peer == owner) continue;
        Send(peer, owner, part);
        Send(owner, peer, part);
        LoadOf(owner).reduced += part;
      }
      const double passed = part * (hosts - 1) / hosts;
      Send(owner, owners.OwnerOf(chunk, host + 1), 2 * passed);
      LoadOf(owner).reduced += passed;
    }
  }
  latency_ = 2 * (hosts - 1) * costs_.remote.latency;
  if (chunks > 1) {
    latency_ += 2 * LatencyOfMany(costs_.local.latency, chunks - 1);
  }
}

double Prediction::SecondsPerByte(const std::vector<int>& ranks) const {
  double of_one = 0;  // the busiest rank
  double of_all = 0;
  double sent = 0;
  double received = 0;
  for (const int rank : ranks) {
    const Load& load = loads_[static_cast<size_t>(rank)];
    const double moved =
        std::max(load.local_sent, load.local_received) + load.copied;
    const double work = moved * costs_.local.seconds_per_byte +
                        load.reduced * costs_.reduce_seconds_per_byte;
    of_one = std::max(of_one, work);
    of_all += work;
    sent += load.remote_sent;
    received += load.remote_received;
  }
  const int cores = std::max(1, costs_.cores_per_host);
  return std::max(of_one, of_all / cores) +
         std::max(sent, received) * costs_.remote.seconds_per_byte;
}

double Prediction::Seconds(int64_t bytes) const {
  double busiest = 0;
  for (int host = 0; host < topology_.host_count(); ++host) {
    busiest = std::max(busiest, SecondsPerByte(topology_.RanksOf(host)));
  }
  return latency_ + busiest * static_cast<double>(bytes);
}

}  // namespace

CollectiveCosts CostsOver(Transport best, const MachineCosts& machine) {
  CollectiveCosts costs;
  costs.local = best == Transport::kSharedMemory ? machine.shared_memory
                : best == Transport::kUnix       ? machine.unix_socket
                                                 : machine.tcp;
  costs.remote = machine.remote;
  costs.reduce_seconds_per_byte = machine.reduce_seconds_per_byte;
  costs.cores_per_host = machine.cores;
  return costs;
}

double PredictAllReduce(Algorithm algorithm, int64_t bytes,
                        const Topology& topology,
                        const CollectiveCosts& costs) {
  if (topology.world_size() < 2) return 0;
  Prediction prediction(topology, costs);
  switch (algorithm) {
    case Algorithm::kRing:
      prediction.Ring();
      break;
    case Algorithm::kHalvingDoubling:
      prediction.HalvingDoubling();
      break;
    case Algorithm::kDirect:
      prediction.Direct();
      break;
    case Algorithm::kExchange:
      prediction.Exchange();
      break;
    case Algorithm::kGatherBroadcast:
      prediction.GatherBroadcast();
      break;
    case Algorithm::kHierarchical:
      prediction.Hierarchical();
      break;
    case Algorithm::kAuto:
      RM_CHECK(false, "a prediction needs an algorithm");
  }
  return prediction.Seconds(bytes);
}

Algorithm ChooseAllReduce(int64_t bytes, const Topology& topology,
                          const CollectiveCosts& costs) {
  Algorithm best = Algorithm::kRing;
  double best_seconds = PredictAllReduce(best, bytes, topology, costs);
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kGatherBroadcast ||
        !IsUsable(algorithm, topology)) {
      continue;
    }
    const double seconds = PredictAllReduce(algorithm, bytes, topology, costs);
    // Sums in another order differ in the last bits: that is a tie.
    if (seconds < best_seconds * (1 - 1e-9)) {
      best = algorithm;
      best_seconds = seconds;
    }
  }
  return best;
}

Algorithm ChooseAlgorithm(const CollectiveRequest& request,
                          const Topology& topology,
                          const AlgorithmPolicy& policy) {
  if (request.algorithm != Algorithm::kAuto) return request.algorithm;
  if (request.op != CollectiveOp::kAllReduce) {
    return topology.host_count() == 1 && IsUsable(Algorithm::kDirect, topology)
               ? Algorithm::kDirect
               : Algorithm::kRing;
  }
  // kAuto is not usable.
  if (IsUsable(policy.algorithm, topology)) return policy.algorithm;
  return ChooseAllReduce(request.buffer.count * SizeOf(WireOf(request)),
                         topology, policy.costs);
}

}  // namespace ringmaster
