// CancelToken interrupts a wait on sockets from another thread.
//
// The waiting thread adds fd() to its poll set and asks is_cancelled() between
// steps; Cancel makes fd() readable for good. Thread-safe. Must outlive every
// wait on it.
#ifndef RINGMASTER_COMMON_TRANSPORT_CANCEL_TOKEN_H_
#define RINGMASTER_COMMON_TRANSPORT_CANCEL_TOKEN_H_

#include <atomic>
#include <string_view>

#include "absl/status/status.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class CancelToken {
 public:
  CancelToken();
  ~CancelToken();
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  // Cancels with ABORTED `why`, or with `status` (not OK). Only the first call
  // counts.
  void Cancel(std::string_view why);
  void CancelWith(absl::Status status);

  [[nodiscard]] bool is_cancelled() const {
    return cancelled_.load(std::memory_order_acquire);
  }

  // OK, or why it was cancelled.
  [[nodiscard]] absl::Status status() const;

  // Readable once cancelled; -1 if the process had no descriptor left, so waits
  // also check is_cancelled() now and then (kMaxWaitIo).
  [[nodiscard]] int fd() const { return fd_; }

 private:
  const int fd_;
  std::atomic<bool> cancelled_{false};
  mutable Mutex mutex_;
  absl::Status status_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_CANCEL_TOKEN_H_
