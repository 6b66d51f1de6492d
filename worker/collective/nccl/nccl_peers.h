// The facts that ranks exchange before they enter NCCL, which would answer a
// mismatch with a hang or a message that names no rank.
//
// Thread-safety: pure functions; the exchanges as Communicator.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_PEERS_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_PEERS_H_

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl/nccl_settings.h"

namespace ringmaster {

struct NcclRankFacts {
  int version = 0;            // of NCCL: 22809 is 2.28.9
  std::string gpu_uuid = {};  // "GPU-8a56..."
  std::string host_name = {};
  NcclSettings settings = {};
  // The reason why this rank cannot use NCCL; empty if it can. The others get
  // it, since they would wait for this rank.
  std::string error = {};

  friend bool operator==(const NcclRankFacts&, const NcclRankFacts&) = default;
};

// "2.28.9" for 22809.
[[nodiscard]] std::string NcclVersionText(int version);

// Checks that the ranks, in order, can form an NCCL communicator. Every rank
// comes to the same result.
//   INVALID_ARGUMENT     one cannot use NCCL; two have the same GPU, and do not
//                        share it on purpose
//   FAILED_PRECONDITION  versions or settings differ
// The message names the ranks, their hosts, and what to do.
[[nodiscard]] absl::Status CheckNcclRanks(std::span<const NcclRankFacts> ranks);

// All-gathers `own` over `host`. Texts longer than their place on the wire are
// cut. The statuses are those of Communicator::Run.
[[nodiscard]] absl::StatusOr<std::vector<NcclRankFacts>> ExchangeNcclFacts(
    const NcclRankFacts& own, Communicator& host, MonotonicTime deadline);

// NCCL's unique id, as it is.
inline constexpr size_t kNcclIdBytes = 128;
using NcclId = std::array<char, kNcclIdBytes>;

// Rank 0 makes the id and gives it to the others over `host`.
//   INVALID_ARGUMENT  rank 0 could not make one; the message has its words
//   else those of Communicator::Run
[[nodiscard]] absl::StatusOr<NcclId> AgreeOnNcclId(
    const std::function<absl::StatusOr<NcclId>()>& make, Communicator& host,
    MonotonicTime deadline);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_PEERS_H_
