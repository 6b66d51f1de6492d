// The core's state in the API's form: core types made into messages. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_STATE_PROTO_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_STATE_PROTO_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "ringmaster/v1/worker.pb.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// This process, as the status shows it.
struct CoordinatorIdentity {
  std::string version = {};
  uint64_t incarnation = 0;
  absl::Time start_time = {};
  int64_t pid = 0;
  std::string host = {};
  bool requires_encryption = false;  // Config's
};

// The source of a status; valid as long as `state` and `self` are.
struct StatusSource {
  const State& state;
  const CoordinatorIdentity& self;
  MonotonicTime now = {};
  absl::Time time = {};
  // The time that a decision has waited to become durable.
  absl::Duration journal_wait = {};
};

// As of the last event that the state has taken in.
[[nodiscard]] v1::Goodput GoodputProto(const State& state, const Job& job);
[[nodiscard]] v1::Member MemberProto(const MemberIdentity& member,
                                     int world_size, int64_t step);
[[nodiscard]] v1::Worker WorkerProto(const State& state, const Worker& worker,
                                     MonotonicTime now);

enum class MemberDetail { kAll, kNone };
// `job` is one of `state`'s. Without its members, only its last incident is
// included. `queue_position`: if it is known, since counting takes time.
[[nodiscard]] v1::Job JobProto(
    const State& state, const Job& job,
    MemberDetail members = MemberDetail::kAll,
    std::optional<int> queue_position = std::nullopt);

// Everything: the pool by name, jobs that have not ended, and the last
// kMaxEndedJobsShown that have, those without their members, newest first.
inline constexpr int kMaxEndedJobsShown = 20;
[[nodiscard]] v1::Status StatusProto(const StatusSource& source);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_STATE_PROTO_H_
