// OpenCalls are the calls that stay open, sessions and watches: each ends when its caller
// may not make it any more. A client that reads nothing holds up the end of its call: the
// connection of one that is still open some time later is broken.
//
// Thread-safe.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_OPEN_CALLS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_OPEN_CALLS_H_

#include <grpcpp/alarm.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/access/access_control.h"
#include "common/sync/mutex.h"

namespace ringmaster::coordinator {

class OpenCalls {
 public:
  struct Call {
    // As in the table of methods.
    std::string method;
    std::string address;
    Credentials credentials;
    // Ends it with that status; must not block. May be called more than once, and while
    // or after its place is given up.
    std::function<void(const absl::Status& status)> end;
    // Breaks its connection; as `end`.
    std::function<void()> cut;
    // Says whether the caller has what it needs besides the right to the method; empty:
    // it needs nothing else. Called as `end` is.
    std::function<absl::Status(const Identity& caller)> check;
  };

  // A call is one of these while its place lives.
  class Place {
   public:
    ~Place() { calls_.Remove(id_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Ends the call if its caller may not make it: to be called when `check` has
    // another answer.
    void Review() { calls_.Review(id_); }

   private:
    friend class OpenCalls;
    Place(OpenCalls& calls, int64_t id) : calls_(calls), id_(id) {}

    OpenCalls& calls_;
    const int64_t id_;
  };

  // `access` null: nobody is asked who they are, and every call may stay. `patience` is
  // from a call's end to its cut.
  explicit OpenCalls(std::shared_ptr<const AccessControl> access,
                     absl::Duration patience = absl::Seconds(3))
      : access_(std::move(access)), patience_(patience) {}

  // The place of `call`, which must not outlive this. Ends the call if its rights were
  // taken away since it was admitted.
  [[nodiscard]] std::unique_ptr<Place> Add(Call call) EXCLUDES(mutex_);

  // Ends those that would not be admitted now; a line of the log for each. To be called
  // after AccessControl::Replace.
  void EndRefused() EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<const Call> call;
    // Set once it was ended.
    std::unique_ptr<grpc::Alarm> cut = {};
  };

  [[nodiscard]] absl::Status Admit(const Call& call) const;
  void Review(int64_t id) EXCLUDES(mutex_);
  void Remove(int64_t id) EXCLUDES(mutex_);

  const std::shared_ptr<const AccessControl> access_;
  const absl::Duration patience_;
  Mutex mutex_;
  int64_t last_id_ GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Entry> calls_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_OPEN_CALLS_H_
