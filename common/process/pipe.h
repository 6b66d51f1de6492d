// Pipe: both ends of a pipe(2), which programs that this one starts do not get.
#ifndef RINGMASTER_COMMON_PROCESS_PIPE_H_
#define RINGMASTER_COMMON_PROCESS_PIPE_H_

#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// UNAVAILABLE if there are no more descriptors.
[[nodiscard]] absl::StatusOr<Pipe> MakePipe();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROCESS_PIPE_H_
