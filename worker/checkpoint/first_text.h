// First texts: small files whose first writer decides what they hold, also where
// several hosts share their directory.
//
// Such a file appears whole and durable, by one link, and is never written again. An
// empty one, as a crash of the machine may leave, counts as none.
// Thread-safe, also between processes. Errors are FileError's and name the path.
#ifndef RINGMASTER_WORKER_CHECKPOINT_FIRST_TEXT_H_
#define RINGMASTER_WORKER_CHECKPOINT_FIRST_TEXT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

// Returns the text at `path`, at most kMaxFirstTextBytes of it; "" if there is none.
inline constexpr size_t kMaxFirstTextBytes = 256;
[[nodiscard]] absl::StatusOr<std::string> ReadFirstText(
    const std::string& path);

// Puts `text` at `path`, unless somebody was faster, and returns the text that is there
// then. `text` is not empty. `when_durable` is a fail point: it passes once the text is on
// the disk and not yet in its place.
//   DATA_LOSS  the file stays empty
[[nodiscard]] absl::StatusOr<std::string> KeepFirstText(
    const std::string& path, const std::string& text,
    const std::function<absl::Status()>& when_durable);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_FIRST_TEXT_H_
