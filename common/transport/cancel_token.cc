#include "common/transport/cancel_token.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"

namespace ringmaster {

CancelToken::CancelToken() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

CancelToken::~CancelToken() {
  if (fd_ >= 0) close(fd_);
}

void CancelToken::Cancel(std::string_view why) {
  CancelWith(absl::AbortedError(absl::string_view(why.data(), why.size())));
}

void CancelToken::CancelWith(absl::Status status) {
  {
    MutexLock lock(mutex_);
    if (!status_.ok()) return;
    status_ = std::move(status);
    cancelled_.store(true, std::memory_order_release);
  }
  const uint64_t one = 1;
  // Fails only if the counter would overflow, and then it is readable already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

absl::Status CancelToken::status() const {
  MutexLock lock(mutex_);
  return status_;
}

}  // namespace ringmaster
