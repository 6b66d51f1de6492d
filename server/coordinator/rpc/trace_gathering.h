// TraceGathering asks the members of a job for what they recorded, and waits
// for their answers a limited time.
//
// Thread-compatible; lives on the coordinator's executor.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_TRACE_GATHERING_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_TRACE_GATHERING_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/core/state/types.h"
#include "server/coordinator/rpc/newest_steps.h"

namespace ringmaster::coordinator {

// A member that has not answered within this time is named as missing.
inline constexpr absl::Duration kTraceBudget = absl::Seconds(2);

class TraceGathering {
 public:
  using Reply = absl::AnyInvocable<void(absl::StatusOr<v1::GetTraceResponse>)>;
  using Send = std::function<void(SessionId, const v1::TraceRequest&)>;

  explicit TraceGathering(Send send) : send_(std::move(send)) {}

  // Asks every member of `job` that has a session, unless it has since begun
  // another job, which clears its trace; `reply` is called once, perhaps at
  // once.
  //   RESOURCE_EXHAUSTED  even the newest step does not fit an answer
  void Start(const State& state, const Job& job, int64_t first_step,
             int64_t last_step, MonotonicTime now, Reply reply);

  // Takes an answer; drops one that no gathering waits for.
  void Add(SessionId session, v1::TraceReply reply);
  // The session will not answer any more.
  void Forget(SessionId session);
  // Ends what has waited long enough.
  void Expire(MonotonicTime now);
  [[nodiscard]] MonotonicTime NextDeadline() const;
  // Ends all with `status`.
  void Abort(const absl::Status& status);

 private:
  struct Gathering {
    int64_t request_id;
    MonotonicTime deadline;
    struct Asked {
      std::string worker;
      int rank = 0;
    };
    // Those who have not answered.
    std::map<SessionId, Asked> waiting;
    NewestSteps answers;
    std::vector<std::string> missing;
    Reply reply;
  };

  // Answers and forgets every gathering that waits for nobody.
  void FinishComplete();
  static void Finish(Gathering& gathering);

  const Send send_;
  int64_t last_request_id_ = 0;
  std::list<Gathering> gatherings_;  // by deadline
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_TRACE_GATHERING_H_
