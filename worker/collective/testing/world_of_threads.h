// WorldOfThreads: a world of ranks in one process, each with its Communicator.
// For tests.
//
// Example:
//   auto world = *WorldOfThreads::Create({.world_size = 4});
//   world->RunAll([&](Communicator& communicator) { return Step(communicator);
//   });
// Thread-compatible; the communicators have their own contract.
#ifndef RINGMASTER_WORKER_COLLECTIVE_TESTING_WORLD_OF_THREADS_H_
#define RINGMASTER_WORKER_COLLECTIVE_TESTING_WORLD_OF_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "common/transport/channel.h"
#include "common/transport/link.h"
#include "common/transport/shared_segment.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

class WorldOfThreads {
 public:
  struct Options {
    int world_size = 2;
    // The best that ConnectMesh may use; kLoopback: without it.
    Transport transport = Transport::kLoopback;
    // The number of each rank's host; empty: all share one.
    std::vector<int> host_of_rank = {};
    Algorithm algorithm = Algorithm::kAuto;
    // Without kLoopback: connections of each pair on different hosts.
    int stripes = 1;
    FrameIntegrity integrity = FrameIntegrity::kNone;
    // With kSharedMemory: the bytes that each rank has for others to read in
    // place.
    size_t arena_bytes = 0;
    std::string job_id = "job-1";
    int64_t generation = 1;
    // With kLoopback only: a generation per rank instead, to make them
    // disagree; empty: all the same.
    std::vector<int64_t> generations = {};
    Clock* clock = nullptr;           // null: the real one
    std::vector<Trace*> traces = {};  // per rank; empty: none
    // With kLoopback only: puts a decorator around the end of `rank` of its
    // link with `peer`.
    std::function<std::unique_ptr<Link>(int rank, int peer,
                                        std::unique_ptr<Link>)>
        decorate = {};
  };

  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WorldOfThreads>> Create(
      const Options& options);

  [[nodiscard]] int world_size() const {
    return static_cast<int>(communicators_.size());
  }
  [[nodiscard]] Communicator& communicator(int rank) {
    return *communicators_[static_cast<size_t>(rank)];
  }
  // A rank's memory that others read in place; null if there is none.
  [[nodiscard]] std::byte* arena(int rank) {
    return arenas_.empty() ? nullptr : arenas_[static_cast<size_t>(rank)].at();
  }
  // Takes a rank's communicator away, to be a part of another.
  [[nodiscard]] std::unique_ptr<Communicator> Take(int rank) {
    return std::move(communicators_[static_cast<size_t>(rank)]);
  }
  // Destroys a rank's communicator, as the end of its process would.
  void Kill(int rank) { communicators_[static_cast<size_t>(rank)].reset(); }

  // Runs `body` for every living rank on a thread of its own; returns each
  // rank's status (OK for killed ones).
  std::vector<absl::Status> RunAll(
      const std::function<absl::Status(Communicator&)>& body);

 private:
  WorldOfThreads() = default;
  absl::Status ConnectLoopback(const Options& options);
  absl::Status ConnectSockets(const Options& options);

  std::vector<SharedSegment> arenas_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_TESTING_WORLD_OF_THREADS_H_
