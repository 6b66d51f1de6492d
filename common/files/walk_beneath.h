// WalkBeneath: what openat2 does with RESOLVE_BENEATH, for kernels and sandboxes without
// that call.
#ifndef RINGMASTER_COMMON_FILES_WALK_BENEATH_H_
#define RINGMASTER_COMMON_FILES_WALK_BENEATH_H_

#include <sys/types.h>

#include <string>

namespace ringmaster {

// Opens `path`, relative and not empty, beneath the directory `root`: name by name, each
// with O_NOFOLLOW, so that a link that somebody puts in place meanwhile is never followed
// unseen. Returns the descriptor, or an errno as a negative number: as of openat2, so
// -EXDEV where the path leads out or over an absolute link or a link in /proc, and -EAGAIN
// if names keep changing. Thread-safe.
[[nodiscard]] int WalkBeneath(int root, const std::string& path, int flags,
                              mode_t mode);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FILES_WALK_BENEATH_H_
