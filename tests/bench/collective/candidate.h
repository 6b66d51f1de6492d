// A way to all-reduce that the benchmark measures, and the list of those compiled in beside ours.
#ifndef RINGMASTER_TESTS_BENCH_COLLECTIVE_CANDIDATE_H_
#define RINGMASTER_TESTS_BENCH_COLLECTIVE_CANDIDATE_H_

#include <cstdint>
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
  // Called on every rank, with a barrier after it, before the calls with `values`; not timed.
  virtual void Prepare(std::span<float> /*values*/) {}
  [[nodiscard]] virtual absl::Status AllReduce(std::span<float> values) = 0;
};

// The other libraries' all-reduces for `rank` of `world_size`; the ranks meet in `directory`, which is empty and shared.
[[nodiscard]] std::vector<std::unique_ptr<Candidate>> MakePeers(
    int rank, int world_size, const std::string& directory);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_COLLECTIVE_CANDIDATE_H_
