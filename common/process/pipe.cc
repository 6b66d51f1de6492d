#include "common/process/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace ringmaster
