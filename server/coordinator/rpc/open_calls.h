// OpenCalls are the calls that stay open, sessions and watches: each ends when its caller
// may not make it any more.
//
// Thread-safe.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_OPEN_CALLS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_OPEN_CALLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/sync/mutex.h"
#include "server/coordinator/access/access_control.h"

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
  };

  // A call is one of these while its place lives.
  class Place {
   public:
    ~Place() { calls_.Remove(id_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class OpenCalls;
    Place(OpenCalls& calls, int64_t id) : calls_(calls), id_(id) {}

    OpenCalls& calls_;
    const int64_t id_;
  };

  // `access` null: nobody is asked who they are, and every call may stay.
  explicit OpenCalls(std::shared_ptr<const AccessControl> access)
      : access_(std::move(access)) {}

  // The place of `call`, which must not outlive this. Ends the call if its rights were
  // taken away since it was admitted.
  [[nodiscard]] std::unique_ptr<Place> Add(Call call) EXCLUDES(mutex_);

  // Ends those that would not be admitted now; a line of the log for each. To be called
  // after AccessControl::Replace.
  void EndRefused() EXCLUDES(mutex_);

 private:
  void EndIfRefused(const Call& call) const;
  void Remove(int64_t id) EXCLUDES(mutex_);

  const std::shared_ptr<const AccessControl> access_;
  Mutex mutex_;
  int64_t last_id_ GUARDED_BY(mutex_) = 0;
  std::map<int64_t, std::shared_ptr<const Call>> calls_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_OPEN_CALLS_H_
