// Logins: who has shown a token, so that a browser need not keep it.
//
// A login is a random key for a cookie; what the token may do is asked anew with each
// request, so one that is revoked ends its logins. Bounded: at most kMaxLogins, of
// which the oldest goes; each ends after kLoginTime. A new coordinator knows none.
// Thread-safe.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_LOGINS_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_LOGINS_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/sync/mutex.h"

namespace ringmaster::coordinator {

inline constexpr absl::Duration kLoginTime = absl::Hours(12);

class Logins {
 public:
  static constexpr size_t kMaxLogins = 256;

  // Returns the key of a new login of whoever sends `authorization`.
  [[nodiscard]] std::string Add(std::string authorization, MonotonicTime now)
      EXCLUDES(mutex_);
  // The authorization behind the key; empty: there is no such login at `now`.
  [[nodiscard]] std::string Find(std::string_view key, MonotonicTime now) const
      EXCLUDES(mutex_);
  void Remove(std::string_view key) EXCLUDES(mutex_);

 private:
  struct Login {
    std::string key_digest;
    std::string authorization;
    MonotonicTime end;
  };

  mutable Mutex mutex_;
  std::deque<Login> logins_ GUARDED_BY(mutex_);  // oldest first
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_LOGINS_H_
