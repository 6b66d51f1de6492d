// CallLimits bounds what the callers of a server with blocking handlers may cost it: a
// handler holds a thread, and elements under way hold memory.
//
// Thread-safe.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_RPC_CALL_LIMITS_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_RPC_CALL_LIMITS_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/access/refusal_log.h"
#include "common/rpc/call_context.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class CallLimits {
 public:
  struct Values {
    // At once; fewer than the server has threads (common/rpc/channel.cc).
    int calls = 16;
    // Elements that calls under way hold, in all. One alone may hold more.
    int64_t bytes = int64_t{1} << 30;
    // From a call's beginning to its end, whatever its client does.
    absl::Duration time = absl::Minutes(2);
  };

  // A call counts while this lives. It is cancelled if that takes too long, with a line
  // of the log.
  class Call {
   public:
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Counts `bytes` until the end of the call.
    //   RESOURCE_EXHAUSTED  others hold too many
    [[nodiscard]] absl::Status Hold(int64_t bytes);
    // True once it took too long. gRPC says so a moment later.
    bool is_cut() const { return is_cut_->load(); }

   private:
    friend class CallLimits;
    Call(CallLimits& limits, const char* method,
         const grpc::ServerContext& context);

    CallLimits& limits_;
    const std::string method_;
    const std::string address_;
    int64_t bytes_ = 0;
    std::shared_ptr<CallContext> context_;  // null: not begun
    // Shared with the alarm, which may ring on while the call is destroyed.
    const std::shared_ptr<std::atomic<bool>> is_cut_ =
        std::make_shared<std::atomic<bool>>(false);
    grpc::Alarm too_long_;
  };

  explicit CallLimits(const Values& values) : values_(values) {}

  // The call of a handler, which destroys it before it returns.
  //   RESOURCE_EXHAUSTED  as many are under way as may be
  // What is refused, here and by Hold, is a line of the log, with its sender.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Call>> Begin(
      const char* method, grpc::ServerContext& context) EXCLUDES(mutex_);

 private:
  absl::Status Refuse(const Call& call, const std::string& why);

  const Values values_;
  RefusalLog refusals_;
  Mutex mutex_;
  int calls_ GUARDED_BY(mutex_) = 0;
  int64_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_RPC_CALL_LIMITS_H_
