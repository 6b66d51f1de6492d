#include "common/transport/wait_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringmaster {

absl::Status WaitIo(std::span<pollfd> polled, absl::Duration longest) {
  const absl::Duration wait =
      std::clamp(longest, absl::ZeroDuration(), kMaxWaitIo);
  const auto milliseconds = static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  if (poll(polled.data(), polled.size(), milliseconds) >= 0)
    return absl::OkStatus();
  if (errno != EINTR)
    return absl::InternalError(absl::StrCat("poll failed: ", strerror(errno)));
  for (pollfd& fd : polled) fd.revents = 0;
  return absl::OkStatus();
}

}  // namespace ringmaster
