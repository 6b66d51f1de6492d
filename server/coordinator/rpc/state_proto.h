// The core's state in the API's form: core types made into messages. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_STATE_PROTO_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_STATE_PROTO_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
#include "server/coordinator/rpc/status_filter.h"

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

[[nodiscard]] v1::Membership MembershipProto(const Membership& membership);

// The places of jobs in the queue, and when they are expected to begin. Lasts as long
// as the state stays as it is.
class QueueOutlook {
 public:
  // Of all jobs; which takes less time than job by job.
  explicit QueueOutlook(const State& state);
  QueueOutlook(const State& state, const Job& job);

  // Shows them in `proto`, which is that of `job`.
  void Set(const Job& job, v1::Job& proto) const;

 private:
  std::map<const Job*, int> positions_;
  std::map<int64_t, absl::Duration> waits_;  // by number
};

enum class MemberDetail { kAll, kNone };
// `job` is one of `state`'s. Without its members, only its last incident is
// included. `outlook`: that of all jobs, if it is there.
[[nodiscard]] v1::Job JobProto(const State& state, const Job& job,
                               MemberDetail members = MemberDetail::kAll,
                               const QueueOutlook* outlook = nullptr);

// The status without workers and jobs.
[[nodiscard]] v1::Status StatusFrame(const StatusSource& source);

// Everything that matches: the pool by name, jobs that have not ended, and the last
// kMaxEndedJobsShown that have, those without their members, newest first.
// `outlook`: that of all jobs, if it is there.
inline constexpr int kMaxEndedJobsShown = 20;
[[nodiscard]] v1::Status StatusProto(const StatusSource& source,
                                     const StatusFilter& filter = {},
                                     const QueueOutlook* outlook = nullptr);

// Those of its jobs that match, newest first.
[[nodiscard]] std::vector<const Job*> ShownJobs(const State& state,
                                                const StatusFilter& filter);

// As it is in the status, where jobs that have ended are without their members.
[[nodiscard]] v1::Job StatusJobProto(const State& state, const Job& job,
                                     const QueueOutlook& outlook);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_STATE_PROTO_H_
