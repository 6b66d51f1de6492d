// Our communicators among forked ranks on this host, by transport.
#ifndef RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_OUR_MESH_H_
#define RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_OUR_MESH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"
#include "common/transport/shared_segment.h"
#include "common/transport/tcp.h"
#include "tests/bench/allreduce_vs_peers/candidate.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {

// Far away: for what should not take long.
[[nodiscard]] MonotonicTime PatientDeadline();

// Connects `rank` with all others, by `transport` at best. Buffers in `arena` (may be null) are read in place.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> ConnectOurs(
    const std::vector<Listener>& listeners, int rank, int64_t generation,
    Transport transport, const SharedSegment* arena = nullptr,
    FrameIntegrity integrity = FrameIntegrity::kNone);

// "shm", "unix", "tcp".
[[nodiscard]] const char* ShortName(Transport transport);

// All-reduces of float32 that travel as `wire`; none: as they are.
struct OurWay {
  std::optional<DType> wire = std::nullopt;
  Algorithm algorithm = Algorithm::kAuto;
  // Where the buffer lies; null: on the heap. Outlives the candidate.
  const SharedSegment* arena = nullptr;
};
[[nodiscard]] std::unique_ptr<Candidate> OurCandidate(
    std::string name, Communicator& communicator, const OurWay& way);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_OUR_MESH_H_
