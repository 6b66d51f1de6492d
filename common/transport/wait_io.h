// WaitIo: poll(2) with a duration, for threads that wait for sockets.
#ifndef RINGMASTER_COMMON_TRANSPORT_WAIT_IO_H_
#define RINGMASTER_COMMON_TRANSPORT_WAIT_IO_H_

#include <poll.h>

#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ringmaster {

// No wait is longer: callers look at their clock, which may be a test's, and at
// their CancelToken again.
inline constexpr absl::Duration kMaxWaitIo = absl::Milliseconds(50);

// Waits until one of `polled` is ready or `longest` (or kMaxWaitIo) has passed,
// and sets revents, all 0 if none is ready. A duration below a millisecond is
// rounded up, so that waits never spin. INTERNAL if poll fails.
[[nodiscard]] absl::Status WaitIo(std::span<pollfd> polled,
                                  absl::Duration longest);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_WAIT_IO_H_
