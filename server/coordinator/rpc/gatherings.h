// Gatherings puts questions to several workers at once, over their sessions,
// and waits for the answers a limited time.
//
// Thread-compatible; lives on the coordinator's executor.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_GATHERINGS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_GATHERINGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "server/coordinator/core/state/types.h"
#include "server/coordinator/rpc/limits.h"

namespace ringmaster::coordinator {

// A worker that has not answered within this time is missing.
inline constexpr absl::Duration kGatherBudget = absl::Seconds(2);

// One question, and what becomes of the answers.
class Gathering {
 public:
  virtual ~Gathering() = default;

  // The question to `worker`, which is to repeat `request_id` in its answer.
  [[nodiscard]] virtual v1::SessionResponse QuestionTo(
      const std::string& worker, int64_t request_id) const = 0;
  // The id that `message` repeats; 0 if it answers another kind of question.
  [[nodiscard]] virtual int64_t IdIn(
      const v1::SessionRequest& message) const = 0;

  virtual void Add(const std::string& worker, v1::SessionRequest answer) = 0;
  // `why` is a sentence without its subject.
  virtual void Miss(const std::string& worker, const std::string& why) = 0;

  // Called once, and last: all have answered or are missing, or `status` is an
  // error that ends the gathering.
  virtual void Finish(const absl::Status& status) = 0;
};

class Gatherings {
 public:
  using Send = std::function<void(SessionId, v1::SessionResponse)>;

  // Answers take memory until the last one is there: at most `max_running`
  // gatherings are under way.
  explicit Gatherings(Send send, int max_running = Limits().gatherings)
      : send_(std::move(send)),
        max_running_(static_cast<size_t>(max_running)) {}

  // Asks `workers`, by session; finishes the gathering, perhaps at once, with
  // RESOURCE_EXHAUSTED if too many are under way.
  void Start(std::unique_ptr<Gathering> gathering,
             std::map<SessionId, std::string> workers, MonotonicTime now);

  // Takes an answer; drops one that no gathering waits for.
  void Add(SessionId session, v1::SessionRequest answer);
  // The session will not answer any more.
  void Forget(SessionId session);
  // Ends what has waited long enough.
  void Expire(MonotonicTime now);
  [[nodiscard]] MonotonicTime NextDeadline() const;
  // Ends all with `status`.
  void Abort(const absl::Status& status);

 private:
  struct Running {
    int64_t request_id;
    MonotonicTime deadline;
    std::map<SessionId, std::string> waiting;  // those who have not answered
    std::unique_ptr<Gathering> gathering;
  };

  // Finishes and forgets every gathering that waits for nobody.
  void FinishComplete();

  const Send send_;
  const size_t max_running_;
  int64_t last_request_id_ = 0;
  std::list<Running> running_;  // by deadline
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_GATHERINGS_H_
