// A way to all-reduce that the benchmark measures, and the lists of those that the programs have beside ours.
#ifndef RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_CANDIDATE_H_
#define RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_CANDIDATE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster {

class Candidate {
 public:
  virtual ~Candidate() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // Larger buffers are not measured.
  [[nodiscard]] virtual int64_t max_bytes() const {
    return std::numeric_limits<int64_t>::max();
  }
  // Where the values of its calls lie: as many elements as `heap` has, or itself.
  [[nodiscard]] virtual std::span<float> BufferFor(std::span<float> heap) {
    return heap;
  }
  // Called on every rank, with a barrier after it, before the calls with `values`; not timed.
  virtual void Prepare(std::span<float> /*values*/) {}
  // Before and after each all-reduce, for those that have a buffer of their own; not timed.
  virtual void Load(std::span<const float> /*values*/) {}
  virtual void Store(std::span<float> /*values*/) {}
  // `values` on every rank become their sums over the ranks.
  [[nodiscard]] virtual absl::Status AllReduce(std::span<float> values) = 0;
};

using Candidates = std::vector<std::unique_ptr<Candidate>>;

// The other library's all-reduces for `rank` of `world_size`; the ranks meet in `directory`, which is empty and shared.
[[nodiscard]] Candidates MakePeers(int rank, int world_size,
                                   const std::string& directory);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_CANDIDATE_H_
