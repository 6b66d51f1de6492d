// RingOfThreads: a world of ranks in one process, each with its Communicator.
// For tests.
//
// Example:
//   auto ring = *RingOfThreads::Create({.world_size = 4});
//   ring->RunAll([&](Communicator& communicator) { return Step(communicator);
//   });
// Thread-compatible; the communicators have their own contract.
#ifndef RINGMASTER_WORKER_COLLECTIVE_TESTING_RING_OF_THREADS_H_
#define RINGMASTER_WORKER_COLLECTIVE_TESTING_RING_OF_THREADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "common/transport/link.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

class RingOfThreads {
 public:
  enum class Transport { kLoopback, kTcp };

  struct Options {
    int world_size = 2;
    Transport transport = Transport::kLoopback;
    std::string job_id = "job-1";
    int64_t generation = 1;
    // With kLoopback only: a generation per rank instead, to let them disagree;
    // empty: all the same.
    std::vector<int64_t> generations = {};
    Clock* clock = nullptr;           // null: the real one
    std::vector<Trace*> traces = {};  // per rank; empty: none
    // With kLoopback only: puts a decorator around the link from `rank` to the
    // next one.
    std::function<std::unique_ptr<Link>(int rank, std::unique_ptr<Link>)>
        decorate_next = {};
    // The same for the link from the previous rank to `rank`.
    std::function<std::unique_ptr<Link>(int rank, std::unique_ptr<Link>)>
        decorate_prev = {};
  };

  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RingOfThreads>> Create(
      const Options& options);

  [[nodiscard]] int world_size() const {
    return static_cast<int>(communicators_.size());
  }
  [[nodiscard]] Communicator& communicator(int rank) {
    return *communicators_[rank];
  }
  // Destroys a rank's communicator, as the end of its process would.
  void Kill(int rank) { communicators_[rank].reset(); }

  // Runs `body` for every living rank on a thread of its own; returns each
  // rank's status (OK for killed ones).
  std::vector<absl::Status> RunAll(
      const std::function<absl::Status(Communicator&)>& body);

 private:
  RingOfThreads() = default;
  absl::Status ConnectLoopback(const Options& options);
  absl::Status ConnectTcp(const Options& options);

  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_TESTING_RING_OF_THREADS_H_
